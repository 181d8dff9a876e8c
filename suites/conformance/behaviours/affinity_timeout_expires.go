package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutExpires() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-expires", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client that made no connection for longer than the timeout is assigned an endpoint anew.",
		Promises: []promise.Promise{promise.AffinityAtMost, promise.AffinityTimeout},
		Upstream: "[sig-network] Services should have session affinity timeout work for service with type clusterIP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			const timeout = 2
			svc := s.Service(kit.Sticky(timeout))
			pods := s.AllPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			before := map[string]string{}
			for _, c := range kit.Clients(pods...) {
				before[c.Name] = s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...).Name
			}
			s.Pause((timeout + 1) * time.Second)
			for _, c := range kit.Clients(pods...) { // by chance all get the same again once in 10^7 runs
				if s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 1, kit.Clients(pods...)...).Name != before[c.Name] {
					return
				}
			}
			s.Fail("after %d s without a connection each of %d clients still has its endpoint, of %d", timeout+1, len(pods), len(pods))
		},
	}
}
