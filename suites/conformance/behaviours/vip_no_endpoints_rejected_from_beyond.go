package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipNoEndpointsRejectedFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-no-endpoints-rejected-from-beyond", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "What comes from outside to the address of a load balancer is rejected, not dropped, while the Service has no endpoint, at any node, by TCP and UDP.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			ways := svc.WaysTo(vip, s.HostsBeyond(s.FirstNodes()...)...)
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Each(ways, kit.Rejected())
		},
	}
}
