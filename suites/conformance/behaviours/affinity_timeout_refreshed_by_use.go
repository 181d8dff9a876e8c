package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutRefreshedByUse() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-refreshed-by-use", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Every connection starts the timeout anew: a client that keeps coming back stays with its endpoint.",
		Promises: []promise.Promise{promise.AffinitySliding},
		Features: []kit.Feature{kit.FeatureAffinitySliding},
		Run: func(s *kit.Spec) {
			const timeout, gap = 3 * time.Second, time.Second
			svc := s.Service(kit.Sticky(int32(timeout / time.Second)))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			at, bound, used := kit.TCP(svc.ClusterIP()), map[string]kit.Client{}, map[string]time.Time{}
			for _, c := range kit.Clients(pods...) {
				bound[c.Name] = s.ExpectOne(c, at, 5, kit.Clients(pods...)...)
				used[c.Name] = time.Now()
			}
			for range timeout/gap + 2 {
				s.Pause(gap)
				for _, c := range kit.Clients(pods...) {
					began := time.Now()
					if idle := time.Since(used[c.Name]); idle > timeout-gap/2 {
						s.Inconclusive("the harness was too slow: %s without a connection of %s", idle, c.Name)
					}
					s.Expect(c, at, kit.Only(bound[c.Name]).Times(1))
					used[c.Name] = began
				}
			}
		},
	}
}
