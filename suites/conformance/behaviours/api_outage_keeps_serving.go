package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func apiOutageKeepsServing() kit.Behaviour {
	return kit.Behaviour{
		ID: "api-outage-keeps-serving", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While no node reaches the API the last state is kept, whatever changes there, and after it what did not change: new connections and datagrams are answered, and connections and UDP flows stay at their endpoints.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			svc.Endpoints(a.Ready(), b.Ready())
			moved := s.Service()
			moved.Endpoints(a.Ready())
			client, to := via.A.Client, kit.TCP(moved.ClusterIP())
			s.Expect(client, to, kit.Pods(a))
			loads := []kit.Way{
				{From: via.B.Client, To: kit.TCP(svc.ClusterIP())}, {From: via.B.Client, To: kit.UDP(svc.ClusterIP("dns"))},
				{From: s.Outside(), To: kit.TCP(svc.NodePort(via))}, {From: s.Outside(), To: kit.UDP(svc.NodePort(via, "dns"))},
			}
			for _, l := range loads {
				s.Expect(l.From, l.To, kit.Pods(a, b))
			}
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
			for _, f := range flows {
				f.Stay()
			}
		},
	}
}
