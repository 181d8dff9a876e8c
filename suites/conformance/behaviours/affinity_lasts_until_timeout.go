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
			clients := append(kit.Clients(pods...), s.NodeClients()...)
			later := s.Service()
			later.Endpoints(pods[0].Ready())
			s.Each(later.Ways(s.PodClients()...), kit.Pods(pods[0])) // the Service before it has been heard of on each node
			ways := svc.Ways(clients...)
			bound, began := make([]kit.Client, len(ways)), make([]time.Time, len(ways))
			for i, way := range ways {
				began[i] = time.Now()
				bound[i] = s.ExpectOne(way.From, way.To, 3, kit.Clients(pods...)...)
			}
			for i, way := range ways {
				s.Pause(gap - time.Since(began[i]))
				if since := time.Since(began[i]); since > timeout-time.Second {
					s.Inconclusive("the harness was too slow: %s since the first connection", since)
				}
				s.Expect(way.From, way.To, kit.Only(bound[i]).Times(3))
			}
		},
	}
}
