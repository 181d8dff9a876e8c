package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalOnlySameNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-only-same-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port leads outside clients to that node's endpoints only, of every kind, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.ReadyEndpoints, promise.AnyBackend},
		Upstream: "[sig-network] Services should support externalTrafficPolicy=Local for type=NodePort",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			for _, beside := range s.Beside() {
				svc.Kinds(beside...)
				for i, server := range s.OfKinds() {
					s.Each(svc.NodePortWays(s.Nodes[i], s.Outside()), kit.Only(server))
				}
			}
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			s.Each(svc.NodePortWays(s.Nodes[0], s.Outside()), kit.Pods(s.Nodes[0].A, s.Nodes[0].B))
		},
	}
}
