package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalOnlySameNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-only-same-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a ClusterIP leads to endpoints of the client's own node only.",
		Promises: []promise.Promise{promise.InternalLocal, promise.InternalLocalOnly},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod to Pod",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready(), s.Nodes[1].A.Ready())
			at := kit.TCP(svc.ClusterIP())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[0].A, s.Nodes[0].B))
			s.Expect(s.Nodes[1].B.Client, at, kit.Pods(s.Nodes[1].A))
		},
	}
}
