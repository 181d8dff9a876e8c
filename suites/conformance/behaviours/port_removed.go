package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portRemoved() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-removed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A port that a Service has no more is reached no more, and its other port loses no connection meanwhile, of a pod and of a client outside to its node port.",
		Promises: []promise.Promise{promise.MultiPort, promise.Synchronized, promise.EveryNode},
		Upstream: "[sig-network] Services should be updated after adding or deleting ports",
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("more", corev1.ProtocolTCP, 81))), s.Nodes[1].A
			nodePort := kit.TCP(svc.NodePort(s.Nodes[3]))
			svc.Endpoints(pod.Ready())
			removed := svc.ClusterIP("more")
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(removed), kit.Pods(pod))
			s.Expect(s.Outside(), nodePort, kit.Pods(pod))
			s.Throughout(s.Outside(), nodePort, 100, func() {
				s.Throughout(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 200, func() {
					svc.Update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
					s.Expect(s.Nodes[0].A.Client, kit.TCP(removed), kit.Unreachable())
				}, pod.Client)
			}, pod.Client)
		},
	}
}
