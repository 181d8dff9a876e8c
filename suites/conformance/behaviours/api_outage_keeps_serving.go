package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func apiOutageKeepsServing() kit.Behaviour {
	return kit.Behaviour{
		ID: "api-outage-keeps-serving", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While no node reaches the API the last state is kept, whatever changes there, and after it what did not change: new connections and datagrams are answered, at the ClusterIP, at node ports, the address of a load balancer in VIP mode and an external IP, and connections and UDP flows stay at their endpoints.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
			svc, addrs := atAll(s)
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			svc.Endpoints(a.Ready(), b.Ready())
			moved := s.Service()
			moved.Endpoints(a.Ready())
			client, to := via.A.Client, kit.TCP(moved.ClusterIP())
			s.Expect(client, to, kit.Pods(a))
			loads := waysBy(s, via, svc, addrs)
			s.Each(loads, kit.Pods(a, b))
			var flows []*kit.Flows
			for _, l := range loads {
				f := s.Flows(l.From, l.To, 8)
				f.Reach(a.Client, b.Client)
				flows = append(flows, f)
			}
			s.UnderLoad(loads, func() {
				s.WithoutAPI(func() {
					moved.Endpoints(b.Ready())
					s.Pause(2 * time.Second)
					s.All(client, to, s.Attempts(client, to, remote.Batch{Attempts: 20}), a.Client)
				})
				s.Expect(client, to, kit.Pods(b))
				s.ExpectFollowing()
			}, a.Client, b.Client)
			s.Stay(flows...)
		},
	}
}
