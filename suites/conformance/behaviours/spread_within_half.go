package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func spreadWithinHalf() kit.Behaviour {
	return kit.Behaviour{
		ID: "spread-within-half", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Of the connections and datagrams of a client, to a ClusterIP and a node port, each endpoint gets between half and one and a half times its even share, on whichever node it is, and of those to a node port under externalTrafficPolicy=Local each of that node.",
		Promises: []promise.Promise{promise.AllEvenly, promise.ExternalLocal},
		Features: []kit.Feature{kit.FeatureSpread},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			pods := []*kit.Pod{n[0].A, n[0].B, n[1].A, n[1].B, n[2].A}
			svc.Endpoints(kit.ReadyAll(pods)...)
			withinHalf(s, append(svc.Ways(n[0].B.Client, n[3].Client), svc.NodePortWays(n[0], s.Outside())...), kit.Clients(pods...)...)
			local := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			local.Endpoints(kit.ReadyAll(pods)...)
			withinHalf(s, local.NodePortWays(n[0], s.Outside()), n[0].A.Client, n[0].B.Client)
		},
	}
}

// withinHalf: of 600 attempts by each way each server gets between half and one and a half times its even share. Of five
// each gets 120 with a standard deviation of sqrt(600*1/5*4/5) = 9.8 if chance decides: the bounds are six of them away,
// and further where there are fewer.
func withinHalf(s *kit.Spec, ways []kit.Way, servers ...kit.Client) {
	even := 600 / len(servers)
	for _, way := range ways {
		share := s.Spread(way.From, way.To, 600, servers...)
		for _, server := range servers {
			if got := share[server.Name]; got < even/2 || got > even*3/2 {
				s.Fail("of 600 attempts of %s at %s of %d endpoints %s got %d, want %d to %d (%v)", way.From.Name, way.To, len(servers), server.Name, got, even/2, even*3/2, share)
			}
		}
	}
}
