package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

// allDown is after when a load balancer of ours knows: three checks, one a second.
const allDown = 5 * time.Second

func lbWithoutAgents() kit.Behaviour {
	return kit.Behaviour{
		ID: "lb-without-agents", Level: kit.Should, Profile: kit.ProfileLB,
		Says:     "While no agent runs anywhere, so that a load balancer finds no healthy node, node ports lead to all endpoints, and when agents are back, so does the load balancer; what it does between is its own and is said.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/119265", "KEP-3836"},
		Features: []kit.Feature{kit.FeatureForwardsAlone, kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedLB, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // the load balancer has a pace of its own
			svc, via := s.Service(kit.Balanced), s.Nodes[2]
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}
			svc.Endpoints(pods[0].Ready(), pods[1].Ready())
			to := kit.TCP(svc.At(svc.AwaitIngress()))
			s.Expect(s.Outside(), to, kit.Pods(pods...))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(via)), kit.Pods(pods...))
			s.WithoutAgents(func() {
				s.ExpectClosed(s.Outside(), s.ProxyHealth(via))
				answered, began := true, time.Now()
				for answered && time.Since(began) < allDown {
					s.Pause(100 * time.Millisecond)
					answered = s.Attempts(s.Outside(), to, remote.Batch{Attempts: 1}).Summary().All(remote.OK)
				}
				s.Say("without healthy nodes for %s the load balancer answers: %t", time.Since(began).Round(100*time.Millisecond), answered)
				for _, n := range s.Nodes {
					s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(pods...))
				}
			})
			s.Expect(s.Outside(), to, kit.Pods(pods...))
		},
	}
}
