package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func tcpConnectionKeptWithoutEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-without-endpoints", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:   "A TCP connection stays whole when the Service has no endpoint any more, while new ones are rejected.",
		Source: []string{"https://kubernetes.io/docs/concepts/services-networking/service/"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			a := s.Nodes[0].A
			svc.Endpoints(a.Ready())
			inside, cluster := s.Nodes[2].B.Client, kit.TCP(svc.ClusterIP())
			outside, nodePort := s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2]))
			s.Expect(inside, cluster, kit.Pods(a))
			s.Expect(outside, nodePort, kit.Pods(a))
			flows := []*kit.Flows{s.Flows(inside, cluster, 8), s.Flows(outside, nodePort, 8)}
			svc.Endpoints()
			s.Expect(inside, cluster, kit.Rejected())
			s.Expect(outside, nodePort, kit.Rejected())
			for _, f := range flows {
				f.Stay()
			}
		},
	}
}
