package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func spreadWithinHalf() kit.Behaviour {
	return kit.Behaviour{
		ID: "spread-within-half", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Of the connections and datagrams of a client, to a ClusterIP and a node port, each endpoint gets between half and one and a half times its even share, on whichever node it is.",
		Promises: []promise.Promise{promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureSpread},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			pods := []*kit.Pod{n[0].A, n[0].B, n[1].A, n[1].B, n[2].A}
			svc.Endpoints(kit.ReadyAll(pods)...)
			// Each of five gets 120 of 600 with a standard deviation of sqrt(600*1/5*4/5) = 9.8 if chance
			// decides: the bounds are six of them away.
			for _, way := range append(svc.Ways(n[0].B.Client, n[3].Client), svc.NodePortWays(n[0], s.Outside())...) {
				share := s.Spread(way.From, way.To, 600, kit.Clients(pods...)...)
				for _, p := range pods {
					if got := share[p.Name]; got < 60 || got > 180 {
						s.Fail("of 600 attempts of %s at %s of five endpoints %s got %d, want 60 to 180 (%v)", way.From.Name, way.To, p.Name, got, share)
					}
				}
			}
		},
	}
}
