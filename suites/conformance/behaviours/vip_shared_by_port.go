package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipSharedByPort() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-shared-by-port", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Two Services may share the address of a load balancer, each with its own port.",
		Promises: []promise.Promise{promise.IPModeVIP, promise.Ingress},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			vip := s.FreeAddr()
			one := s.Service(kit.LoadBalanced)
			two := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 81)))
			one.Endpoints(s.Nodes[0].A.Ready())
			two.Endpoints(s.Nodes[1].A.Ready())
			one.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			two.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[2].B.Client, kit.TCP(one.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].B.Client, kit.TCP(two.At(vip)), kit.Pods(s.Nodes[1].A))
		},
	}
}
