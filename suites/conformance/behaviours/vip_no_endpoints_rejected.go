package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-no-endpoints-rejected", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "Connections and datagrams of pods to the address of a load balancer are rejected, not dropped, while the Service has no endpoint.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			ways := svc.WaysTo(vip, s.PodClients()...)
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Each(ways, kit.Rejected())
		},
	}
}
