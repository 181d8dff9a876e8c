package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortFromNodeItself() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-from-node-itself", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node reaches a node port at its own address and at those of other nodes, by TCP and UDP, with an endpoint there or none.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode, promise.TCP, promise.NamedPorts, promise.AnyBackend},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				var ways []kit.Way
				for i, c := range s.NodeClients() {
					for _, n := range []*kit.Node{s.Nodes[i], s.Nodes[(i+1)%len(s.Nodes)]} {
						ways = append(ways, svc.NodePortWays(n, c)...)
					}
				}
				s.Each(ways, want)
			}
		},
	}
}
