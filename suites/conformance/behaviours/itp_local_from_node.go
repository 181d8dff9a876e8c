package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-from-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a client in a node's own network gets that node's endpoints only, and no answer if there are none.",
		Promises: []promise.Promise{promise.InternalLocal, promise.InternalLocalOnly},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal)
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].Client, at, kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].Client, at, kit.Pods(s.Nodes[2].A))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[2].Client, at, kit.Unreachable())
			s.Expect(s.Nodes[0].Client, at, kit.Pods(s.Nodes[0].A))
		},
	}
}
