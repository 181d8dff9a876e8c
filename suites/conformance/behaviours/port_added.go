package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portAdded() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-added", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A port that a Service gets is served, and its other ports lose no connection and no datagram meanwhile, of a pod, a node and a client outside to its node ports, nor a connection while endpoints come and go.",
		Promises: []promise.Promise{promise.MultiPort, promise.Synchronized, promise.EveryNode, promise.UDP},
		Upstream: "[sig-network] Services should be updated after adding or deleting ports",
		Run: func(s *kit.Spec) {
			svc, pod, also := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A, s.Nodes[2].A
			nodePort := kit.TCP(svc.NodePort(s.Nodes[3]))
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Outside(), nodePort, kit.Pods(pod))
			loads := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client), svc.NodePortWays(s.Nodes[3], s.Outside(), s.Nodes[0].B.Client)...)
			s.UnderLoad(loads, func() { // of endpoints none goes: it may owe an answer
				svc.Update(func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81)) })
				svc.Endpoints(pod.Ready())
				s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP("more")), kit.Pods(pod))
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[3], "more")), kit.Pods(pod))
			}, pod.Client)
			s.Throughout(s.Outside(), nodePort, 100, func() {
				s.Throughout(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 200, func() {
					for _, pods := range [][]*kit.Pod{{pod, also}, {also}, {pod}} {
						svc.Endpoints(kit.ReadyAll(pods)...)
						s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP("more")), kit.Pods(pods...))
						s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[3], "more")), kit.Pods(pods...))
						s.Pause(500 * time.Millisecond) // the streams meet each state
					}
				}, pod.Client, also.Client)
			}, pod.Client, also.Client)
		},
	}
}
