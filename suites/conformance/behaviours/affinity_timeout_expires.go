package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutExpires() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-expires", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "Each client that made no connection for longer than the timeout is assigned an endpoint anew, and no endpoint has more than two fifths of the clients.",
		Promises: []promise.Promise{promise.AffinityAtMost, promise.AffinityTimeout, promise.AllEvenly},
		Upstream: "[sig-network] Services should have session affinity timeout work for service with type clusterIP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			const timeout, of = 2, 8
			pods, ways := s.EightPods(), []kit.Way{}
			for range of { // a record for each client at each Service
				svc := s.Service(kit.Sticky(timeout))
				svc.Endpoints(kit.ReadyAll(pods)...)
				ways = append(ways, svc.Ways(kit.Clients(pods...)...)...)
			}
			bound := func(n int) (out []string) {
				for _, way := range ways {
					out = append(out, s.ExpectOne(way.From, way.To, n, kit.Clients(pods...)...).Name)
				}
				return out
			}
			before, shares := bound(3), map[string]int{}
			for _, server := range before {
				shares[server]++
			}
			spreads := s.Has(kit.FeatureSpread)
			for name, n := range shares { // by chance one of eight has more than 26 of 64 once in 10^6 runs: 8 with a standard deviation of 2.6
				if spreads && n > 26 {
					s.Fail("%s has %d of %d clients, of %d endpoints", name, n, len(before), len(pods))
				}
			}
			s.Pause((timeout + 1) * time.Second)
			moved := map[string]bool{}
			for i, server := range bound(1) {
				moved[ways[i].From.Name] = moved[ways[i].From.Name] || server != before[i]
			}
			for name, any := range moved { // by chance one gets the same again at all of them once in 10^6 runs: 8 * 8^-8
				if !any {
					s.Fail("after %d s without a connection %s still has its endpoint at each of %d Services, of %d endpoints", timeout+1, name, of, len(pods))
				}
			}
		},
	}
}
