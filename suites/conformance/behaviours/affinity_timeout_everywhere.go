package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-everywhere", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client that sent nothing for longer than the timeout is assigned an endpoint anew by UDP at a ClusterIP too, as a process of a node there, from outside at node ports, at the address of a load balancer in VIP mode and at an external IP, by TCP and UDP, also where it was a longer one before any came.",
		Promises: []promise.Promise{promise.AffinityAtMost, promise.AffinityTimeout, promise.EveryNode, promise.Ingress, promise.ExternalIPs, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			const timeout, of = 2, 8
			pods, n := kit.Clients(s.EightPods()...), s.Nodes
			kinds := map[string][]kit.Way{} // a record of one client at each Service
			add := func(kind string, ways []kit.Way) {
				kinds[kind+" by TCP"], kinds[kind+" by UDP"] = append(kinds[kind+" by TCP"], ways[0]), append(kinds[kind+" by UDP"], ways[1])
			}
			for i := range 2 * of {
				svc, addrs := atAll(s, kit.Sticky([]int32{timeout, 600}[i%2]))
				svc.Endpoints(kit.ReadyAll(s.EightPods())...)
				kind := ""
				if i%2 == 1 {
					kind = ", after a change of the timeout,"
					svc.Update(kit.Sticky(timeout))
				}
				add("a ClusterIP"+kind, svc.Ways(n[0].B.Client))
				add("the ClusterIP from a node"+kind, svc.Ways(n[1].Client))
				add("the address of a load balancer"+kind, svc.WaysTo(addrs[0], n[2].B.Client))
				for _, external := range addrs[1:] {
					add("an external IP"+kind, svc.WaysTo(external, n[1].B.Client))
				}
				add("a node port"+kind, svc.NodePortWays(n[3], s.Outside()))
			}
			heard(s, s.PodClients()...)
			before := map[string][]string{}
			for kind, ways := range kinds {
				for _, way := range ways {
					before[kind] = append(before[kind], s.ExpectOne(way.From, way.To, 3, pods...).Name)
				}
			}
			s.Pause((timeout + 1) * time.Second)
			for kind, ways := range kinds { // by chance a client gets the same again at all of a kind once in 800 000 runs: twenty times 8^-8
				moved := false
				for i, way := range ways {
					moved = s.ExpectOne(way.From, way.To, 1, pods...).Name != before[kind][i] || moved
				}
				if !moved {
					s.Fail("after %d s without a connection %s still has its endpoint at %s of each of %d Services, of %d endpoints", timeout+1, ways[0].From.Name, kind, of, len(pods))
				}
			}
		},
	}
}
