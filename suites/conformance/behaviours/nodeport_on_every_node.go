package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortOnEveryNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-on-every-node", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port is served on every node, with an endpoint or without, and under policy Cluster leads to all ready endpoints of every kind, by TCP and UDP.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode, promise.AnyNode, promise.ReadyEndpoints, promise.TCP, promise.AnyBackend, promise.NamedPorts},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for endpoint-Service: http",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				for _, n := range s.Nodes {
					s.Each(svc.NodePortWays(n, s.Outside()), want)
				}
			}
		},
	}
}
