package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptWithoutService() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-without-service", Level: kit.Should, Profile: kit.ProfileTerminating,
		Says:     "A TCP connection stays whole when its Service is deleted, at the ClusterIP and at a node port, while new ones are not answered.",
		Promises: []promise.Promise{promise.ConnectionsLeft},
		Serial:   true, // others may be given the node port that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts), s.Nodes[0].A
			svc.Endpoints(pod.Ready())
			inside, cluster := s.Nodes[2].B.Client, kit.TCP(svc.ClusterIP())
			outside, nodePort := s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2]))
			s.Expect(inside, cluster, kit.Pods(pod))
			s.Expect(outside, nodePort, kit.Pods(pod))
			flows := []*kit.Flows{s.Flows(inside, cluster, 8), s.Flows(outside, nodePort, 8)}
			svc.Delete()
			s.Expect(inside, cluster, kit.Unreachable())
			s.Expect(outside, nodePort, kit.Unreachable())
			for _, f := range flows {
				f.Stay()
			}
		},
	}
}
