package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-pod", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A pod that dials the address of a load balancer in VIP mode is answered by an endpoint, without leaving its node first.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress("", vip)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
