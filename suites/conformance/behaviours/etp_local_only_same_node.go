package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalOnlySameNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-only-same-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port leads outside clients to that node's endpoints only, of every kind, and where these are all there are, pods and nodes too, by TCP and UDP, and to each of eighteen of a node.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.ReadyEndpoints, promise.AnyBackend, promise.EveryNode},
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
			n := s.Nodes
			svc = s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			svc.Endpoints(n[0].A.Ready(), n[0].B.Ready())
			s.Each(svc.NodePortWays(n[0], s.Outside(), n[0].B.Client, n[0].Client, n[1].B.Client, n[1].Client), kit.Pods(n[0].A, n[0].B))
			svc = s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			manyOfANode(s, svc, svc.NodePortWays(n[0], s.Outside()), 9840)
		},
	}
}
