package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A process in the network of a node that dials the address of a load balancer in VIP mode is answered by an endpoint.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
