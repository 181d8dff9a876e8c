package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalTerminatingLocalUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-terminating-local-used", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Under externalTrafficPolicy=Local, with no ready endpoint anywhere, a node's own that terminate and still serve are used, and see the client's address.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.DrainLocal, promise.ExternalLocal},
		Upstream: "[sig-network] Services should fallback to local terminating endpoints when there are no ready endpoints with externalTrafficPolicy=Local",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			svc.Ending(s.Nodes[0].B.Ending())
			for i, server := range s.OfKinds() {
				want := kit.Only(server).From(s.Source(s.Outside(), s.Nodes[i]))
				s.Each(svc.NodePortWays(s.Nodes[i], s.Outside()), want)
			}
		},
	}
}
