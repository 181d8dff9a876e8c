package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalOnlySameNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-only-same-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a ClusterIP leads to endpoints of the client's own node only, of every kind, by TCP and UDP, each port for itself, and each of eighteen of a node.",
		Promises: []promise.Promise{promise.InternalLocal, promise.InternalLocalOnly, promise.ReadyEndpointsInside, promise.AnyBackend},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod to Pod",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal, kit.Both)
			for _, beside := range s.Beside() {
				svc.Kinds(beside...)
				for i, server := range s.OfKinds() {
					s.Each(svc.Ways(s.Nodes[i].B.Client), kit.Only(server))
				}
				s.Each(svc.Ways(s.Nodes[3].B.Client), kit.Unreachable())
			}
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready(), s.Nodes[1].A.Ready())
			s.Each(svc.Ways(s.Nodes[0].B.Client), kit.Pods(s.Nodes[0].A, s.Nodes[0].B))
			svc = s.Service(kit.InternalLocal, kit.Both)
			manyOfANode(s, svc, svc.Ways(s.Nodes[0].B.Client), 9820)
			svc = s.Service(kit.InternalLocal, kit.Both)
			apartLocally(s, svc, func(n *kit.Node) []kit.Way { return svc.Ways(n.B.Client) }, kit.Unreachable())
		},
	}
}
