package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortNumberChanged() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-number-changed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port that gets another number is served at this one, and no more at the old one; a port that gets another name is served at its ClusterIP and node port as before.",
		Promises: []promise.Promise{promise.NodePort, promise.ClusterIP, promise.PortName, promise.Synchronized},
		Upstream: "[sig-network] Networking Granular Checks: Services should update nodePort: http [Slow]",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			old := svc.NodePort(s.Nodes[0])
			s.Expect(s.Outside(), kit.TCP(old), kit.Pods(pod))
			svc.Update(func(o *corev1.Service) { o.Spec.Ports[0].Name, o.Spec.Ports[0].NodePort = "other", 0 })
			svc.Endpoints(pod.Ready())
			if svc.NodePort(s.Nodes[0], "other") == old {
				s.Inconclusive("the API gave the port %d again", old.Port())
			}
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0], "other")), kit.Pods(pod))
			s.Expect(s.Outside(), kit.TCP(old), kit.Unreachable())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP("other")), kit.Pods(pod))
			svc.Update(func(o *corev1.Service) { o.Spec.Ports[0].Name = "third" })
			svc.Endpoints(pod.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0], "third")), kit.Pods(pod))
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP("third")), kit.Pods(pod))
		},
	}
}
