package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func rollingRestartOfAgentsWithoutLoss() kit.Behaviour {
	return kit.Behaviour{
		ID: "rolling-restart-of-agents-without-loss", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "No connection through the load balancer fails while the agents of all nodes are killed and started again, one node after the other.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/119265"},
		Features: []kit.Feature{kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedLB, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // kubelets wait before they start again what was killed before
			svc := s.Service(kit.Balanced, kit.ExternalLocal)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			for _, p := range []*kit.Pod{a, b} {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(p.Node), "/", kit.Status(200))
			}
			to := kit.TCP(svc.At(svc.AwaitIngress()))
			s.Expect(s.Outside(), to, kit.Pods(a, b))
			var gap time.Duration
			s.Throughout(s.Outside(), to, 200, func() {
				for _, n := range s.Nodes {
					want := kit.Status(503)
					if n == a.Node || n == b.Node {
						want = kit.Status(200)
					}
					began := s.KillAgent(n)
					s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", want)
					gap = max(gap, time.Since(began))
				}
			}, a.Client, b.Client)
			s.Say("longest gap of a health check node port: %s", gap.Round(time.Millisecond))
		},
	}
}
