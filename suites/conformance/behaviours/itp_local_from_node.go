package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-from-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a client in a node's own network gets that node's endpoints only, of every kind, and no answer if there are none, by TCP and UDP.",
		Promises: []promise.Promise{promise.InternalLocal, promise.InternalLocalOnly, promise.ReadyEndpointsInside, promise.AnyBackend},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal, kit.Both)
			for _, beside := range s.Beside() {
				svc.Kinds(beside...)
				for i, server := range s.OfKinds() {
					s.Each(svc.Ways(s.Nodes[i].Client), kit.Only(server))
				}
				s.Each(svc.Ways(s.Nodes[3].Client), kit.Unreachable())
			}
		},
	}
}
