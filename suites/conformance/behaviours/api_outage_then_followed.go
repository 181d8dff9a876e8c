package behaviours

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func apiOutageThenFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "api-outage-then-followed", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "What changed while nodes did not reach the API is followed when they do again, a Service that is new or made anew among it, and so is what changes then, of which some endpoints go and others come.",
		Promises: []promise.Promise{promise.Synchronized},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
			moved := s.Service()
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			client, to := via.A.Client, kit.TCP(moved.ClusterIP())
			moved.Endpoints(a.Ready())
			s.Expect(client, to, kit.Pods(a))
			replaced, shifted := s.Service(kit.Both), s.Service(kit.Both)
			replaced.Endpoints(a.Ready())
			shifted.Endpoints(a.Ready(), b.Ready())
			s.Each(replaced.Ways(client), kit.Pods(a))
			s.Each(shifted.Ways(client), kit.Pods(a, b))
			again, fresh := s.Service(kit.Both), (*kit.Service)(nil)
			again.Endpoints(a.Ready())
			silent := again.Ways(client)
			s.Each(silent, kit.Pods(a))
			s.WithoutAPI(func() {
				moved.Endpoints(b.Ready())
				fresh = s.Service(kit.NodePorts, kit.Both)
				fresh.Endpoints(b.Ready())
				was := again.ClusterIP()
				again.DeleteAlone()
				again.Make()
				if again.ClusterIP() == was {
					s.Inconclusive("the API gave the Service the address again that it had before")
				}
				again.Endpoints(b.Ready())
				s.Pause(time.Second)
				res := s.Attempts(client, to, remote.Batch{Attempts: 20})
				if slices.ContainsFunc(res.Attempts, func(r remote.Result) bool { return r.Name == b.Name }) {
					s.Inconclusive("node %s followed a change while it should not have reached the API", via.Name)
				}
				s.Say("without the API: %s", res.Summary()) // what it should come to is another behaviour
			})
			replaced.Endpoints(b.Ready())
			s.Expect(client, to, kit.Pods(b))
			s.Each(slices.Concat(again.Ways(client), fresh.Ways(client), fresh.NodePortWays(via, s.Outside())), kit.Pods(b))
			s.Each(silent, kit.Unreachable())
			shifted.Endpoints(b.Ready(), via.B.Ready())
			s.Each(replaced.Ways(client, via.Client), kit.Pods(b))
			s.Each(shifted.Ways(client, via.Client), kit.Pods(b, via.B))
			s.ExpectFollowing()
		},
	}
}
