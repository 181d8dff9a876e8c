package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpread() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Connections of one client are spread evenly over the endpoints.",
		Promises: []promise.Promise{promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureSpread},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[0].B, s.Nodes[1].A}
			var eps []kit.Endpoint
			var servers []kit.Client
			for _, p := range pods {
				eps, servers = append(eps, p.Ready()), append(servers, p.Client)
			}
			svc.Endpoints(eps...)
			// Of n = 1200 connections each of three gets 400 with a standard deviation of
			// sqrt(n/3*2/3) = 16.3 if chance decides. Six of them are exceeded once in 10^8 runs.
			share := s.Spread(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), 1200, servers...)
			for _, p := range pods {
				if n := share[p.Name]; n < 302 || n > 498 {
					s.Fail("of 1200 connections to three endpoints %s got %d, want 302 to 498 (%v)", p.Name, n, share)
				}
			}
			s.Say("of 1200 connections to three endpoints: %v", share)
		},
	}
}
