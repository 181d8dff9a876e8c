package behaviours

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutRefreshedByUse() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-refreshed-by-use", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Every connection starts the timeout anew: a client that keeps coming back stays with its endpoint, by TCP and UDP, at node ports, the address of a load balancer and an external IP too.",
		Promises: []promise.Promise{promise.AffinitySliding, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureAffinitySliding},
		Run: func(s *kit.Spec) {
			const timeout, gap = 3 * time.Second, time.Second
			svc, addrs := atAll(s, kit.Sticky(int32(timeout/time.Second)))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			ways := slices.Concat(svc.Ways(kit.Clients(pods[:4]...)...), svc.NodePortWays(s.Nodes[3], s.Outside()), waysToAll(svc, addrs, pods[0].Client))
			bound, used := make([]kit.Client, len(ways)), make([]time.Time, len(ways))
			for i, way := range ways {
				bound[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
				used[i] = time.Now()
			}
			for range timeout/gap + 2 {
				s.Pause(gap)
				for i, way := range ways {
					began := time.Now()
					if idle := time.Since(used[i]); idle > timeout-gap/2 {
						s.Inconclusive("the harness was too slow: %s without a connection of %s", idle, way.From.Name)
					}
					s.Expect(way.From, way.To, kit.Only(bound[i]).Times(1))
					used[i] = began
				}
			}
		},
	}
}
