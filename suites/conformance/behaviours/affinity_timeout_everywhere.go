package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-everywhere", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client that sent nothing for longer than the timeout is assigned an endpoint anew by UDP at a ClusterIP too, and from outside at node ports by TCP and UDP.",
		Promises: []promise.Promise{promise.AffinityAtMost, promise.AffinityTimeout},
		Run: func(s *kit.Spec) {
			const timeout, of = 2, 8
			pods, client := kit.Clients(s.EightPods()...), s.Nodes[0].B.Client
			kinds := map[string][]kit.Way{} // a record of one client at each Service
			for range of {
				svc := s.Service(kit.NodePorts, kit.Both, kit.Sticky(timeout))
				svc.Endpoints(kit.ReadyAll(s.EightPods())...)
				at := svc.NodePortWays(s.Nodes[3], s.Outside())
				for kind, way := range map[string]kit.Way{"a ClusterIP by UDP": svc.Ways(client)[1], "a node port by TCP": at[0], "a node port by UDP": at[1]} {
					kinds[kind] = append(kinds[kind], way)
				}
			}
			for kind, ways := range kinds { // by chance a client gets the same again at all of them once in 10^7 runs: 8^-8
				var before []string
				for _, way := range ways {
					before = append(before, s.ExpectOne(way.From, way.To, 3, pods...).Name)
				}
				s.Pause((timeout + 1) * time.Second)
				moved := false
				for i, way := range ways {
					moved = s.ExpectOne(way.From, way.To, 1, pods...).Name != before[i] || moved
				}
				if !moved {
					s.Fail("after %d s without a connection %s still has its endpoint at %s of each of %d Services, of %d endpoints", timeout+1, ways[0].From.Name, kind, of, len(pods))
				}
			}
		},
	}
}
