package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityLastsUntilTimeout() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-lasts-until-timeout", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client that comes back before the timeout since its first connection still has its endpoint.",
		Promises: []promise.Promise{promise.AffinityTimeout, promise.Affinity},
		Run: func(s *kit.Spec) {
			const timeout, gap = 10 * time.Second, 5 * time.Second
			svc, pods := s.Service(kit.Sticky(int32(timeout/time.Second)), kit.Both), s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			bound, began := []kit.Client{}, time.Now()
			ways := svc.Ways(append(kit.Clients(pods...), s.NodeClients()...)...)
			for _, way := range ways {
				bound = append(bound, s.ExpectOne(way.From, way.To, 3, kit.Clients(pods...)...))
			}
			s.Pause(gap - time.Since(began))
			for i, way := range ways {
				if since := time.Since(began); since > timeout-time.Second {
					s.Inconclusive("the harness was too slow: %s since the first connection", since)
				}
				s.Expect(way.From, way.To, kit.Only(bound[i]).Times(3))
			}
		},
	}
}
