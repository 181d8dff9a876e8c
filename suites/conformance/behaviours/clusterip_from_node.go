package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-from-node", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "What a node, or a pod in its network, sends to a ClusterIP reaches each ready endpoint of every kind, and no other, from every node.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported, promise.ReadyEndpointsInside, promise.TCP, promise.AnyBackend, promise.NamedPorts},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for node-Service: http",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Both)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				s.Each(svc.Ways(s.NodeClients()...), want)
			}
		},
	}
}
