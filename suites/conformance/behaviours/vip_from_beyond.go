package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A packet from outside to the address of a load balancer in VIP mode, arriving at any node, reaches an endpoint and is answered.",
		Promises: []promise.Promise{promise.Ingress, promise.ExternalPolicy, promise.AllEvenly},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
