package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipRemovedStops() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-removed-stops", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "An address that is taken out of the status is no longer answered by endpoints, and the ClusterIP is untouched.",
		Promises: []promise.Promise{promise.Ingress, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			svc.Ingress(corev1.LoadBalancerIPModeVIP)
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.At(vip)), kit.Unreachable())
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A))
		},
	}
}
