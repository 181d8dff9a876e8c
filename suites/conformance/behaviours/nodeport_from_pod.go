package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-from-pod", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches a node port at its own node and at others, by TCP and UDP, with an endpoint there or none.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode, promise.TCP, promise.AnyBackend, promise.NamedPorts},
		Upstream: "[sig-network] Services should be able to create a functioning NodePort service",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				var ways []kit.Way
				for i, c := range s.PodClients() {
					for _, n := range []*kit.Node{s.Nodes[i], s.Nodes[(i+1)%len(s.Nodes)]} {
						ways = append(ways, svc.NodePortWays(n, c)...)
					}
				}
				s.Each(ways, want)
			}
		},
	}
}
