package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPRemoved() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-removed", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "An external IP that a Service has no more is not served, while its ClusterIP loses no connection.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			vip, pod := s.FreeAddr(), s.Nodes[1].A
			svc := s.Service(kit.ExternalIPs(vip))
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.At(vip)), kit.Pods(pod))
			s.Throughout(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 200, func() {
				svc.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = nil })
				s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.At(vip)), kit.Unreachable())
			}, pod.Client)
		},
	}
}
