package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptOnRuleChanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-on-rule-changes", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "TCP connections of pods, nodes and from outside, to a ClusterIP and a node port, stay whole while endpoints of their Service, its ports and other Services come and go.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts), s.Nodes
			a, b, c := n[0].A, n[1].A, n[2].A
			ways := append(svc.Ways(n[3].B.Client, n[3].Client), svc.NodePortWays(n[3], s.Outside())...)
			svc.Endpoints(a.Ready(), b.Ready())
			s.Each(ways, kit.Pods(a, b))
			stay := stand(s, ways)
			svc.Endpoints(a.Ready(), b.Ready(), c.Ready())
			s.Each(ways, kit.Pods(a, b, c))
			stay()
			svc.Update(func(o *corev1.Service) {
				o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81))
			})
			svc.Endpoints(a.Ready(), b.Ready())
			s.Expect(n[3].B.Client, kit.TCP(svc.ClusterIP("more")), kit.Pods(a, b))
			s.Each(ways, kit.Pods(a, b))
			stay()
			other := s.Service()
			other.Endpoints(a.Ready(), c.Ready())
			s.Expect(n[3].B.Client, kit.TCP(other.ClusterIP()), kit.Pods(a, c))
			stay()
			other.Delete()
			s.Expect(n[3].B.Client, kit.TCP(other.ClusterIP()), kit.Unreachable())
			stay()
		},
	}
}
