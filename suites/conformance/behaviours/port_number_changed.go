package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portNumberChanged() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-number-changed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service's port that gets another number is served at this one, and no more at the old one, by TCP and UDP, and at its node port as before; so are two that exchange their numbers.",
		Promises: []promise.Promise{promise.Synchronized, promise.ClusterIP},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A
			clients, nodePorts := []kit.Client{s.Nodes[0].A.Client, s.Nodes[3].Client}, svc.NodePortWays(s.Nodes[3], s.Outside())
			svc.Endpoints(pod.Ready())
			old := svc.Ways(clients...)
			s.Each(append(old, nodePorts...), kit.Pods(pod))
			svc.Update(func(o *corev1.Service) { o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 8888, 5353 })
			s.Each(append(svc.Ways(clients...), nodePorts...), kit.Pods(pod))
			s.Each(old, kit.Unreachable())
			other := kit.Port("other", corev1.ProtocolTCP, 81)
			other.TargetPort = intstr.FromInt32(kit.OtherPort)
			two := s.Service(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), other))
			two.Endpoints(pod.Ready())
			ask := func() {
				s.Expect(s.Nodes[0].A.Client, kit.TCP(two.ClusterIP()), kit.Pods(pod).ServedAt(kit.PodPort))
				s.Expect(s.Nodes[0].A.Client, kit.TCP(two.ClusterIP("other")), kit.Pods(pod).ServedAt(kit.OtherPort))
			}
			ask()
			two.Update(func(o *corev1.Service) { o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 81, 80 })
			ask()
		},
	}
}
