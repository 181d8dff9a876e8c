package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipNoEndpointsRejectedFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-no-endpoints-rejected-from-node", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "Connections of a process on a node to the address of a load balancer are rejected, not sent out, while the Service has no endpoint.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/iptables/proxier.go"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			client, to := s.Nodes[1].Client, kit.TCP(svc.At(vip))
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			// kube-proxy in mode iptables rejects in INPUT and FORWARD alone (iptablesJumpChains).
			s.Expect(client, to, kit.Rejected())
		},
	}
}
