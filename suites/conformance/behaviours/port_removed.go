package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portRemoved() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-removed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A port that a Service has no more is reached no more, and its other port loses no connection meanwhile.",
		Promises: []promise.Promise{promise.MultiPort, promise.Synchronized},
		Upstream: "[sig-network] Services should be updated after adding or deleting ports",
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("more", corev1.ProtocolTCP, 81))), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			removed := svc.ClusterIP("more")
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(removed), kit.Pods(pod))
			s.Throughout(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 200, func() {
				svc.Update(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80)))
				s.Expect(s.Nodes[0].A.Client, kit.TCP(removed), kit.Unreachable())
			}, pod.Client)
		},
	}
}
