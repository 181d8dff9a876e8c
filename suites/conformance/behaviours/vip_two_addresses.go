package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipTwoAddresses() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-two-addresses", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Each address of a load balancer is answered, and one that goes takes no other with it.",
		Promises: []promise.Promise{promise.IPModeVIP, promise.Ingress},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, one, two := s.Service(kit.LoadBalanced), s.FreeAddr(), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, one, two)
			client := s.Nodes[1].B.Client
			s.Expect(client, kit.TCP(svc.At(one)), kit.Pods(s.Nodes[0].A))
			s.Expect(client, kit.TCP(svc.At(two)), kit.Pods(s.Nodes[0].A))
			svc.Ingress(corev1.LoadBalancerIPModeVIP, two)
			s.Expect(client, kit.TCP(svc.At(one)), kit.Unreachable())
			s.Expect(client, kit.TCP(svc.At(two)), kit.Pods(s.Nodes[0].A))
		},
	}
}
