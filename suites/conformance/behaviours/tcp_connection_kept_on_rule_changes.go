package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptOnRuleChanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-on-rule-changes", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "TCP connections stay whole while endpoints of their Service, its ports and other Services come and go.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			a, b, c := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A
			client, to := s.Nodes[3].B.Client, kit.TCP(svc.ClusterIP())
			svc.Endpoints(a.Ready(), b.Ready())
			s.Expect(client, to, kit.Pods(a, b))
			flows := s.Flows(client, to, 16)
			svc.Endpoints(a.Ready(), b.Ready(), c.Ready())
			s.Expect(client, to, kit.Pods(a, b, c))
			flows.Stay()
			svc.Update(func(o *corev1.Service) {
				o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81))
			})
			svc.Endpoints(a.Ready(), b.Ready())
			s.Expect(client, kit.TCP(svc.ClusterIP("more")), kit.Pods(a, b))
			flows.Stay()
			other := s.Service()
			other.Endpoints(a.Ready(), c.Ready())
			s.Expect(client, kit.TCP(other.ClusterIP()), kit.Pods(a, c))
			flows.Stay()
			other.Delete()
			s.Expect(client, kit.TCP(other.ClusterIP()), kit.Unreachable())
			flows.Stay()
		},
	}
}
