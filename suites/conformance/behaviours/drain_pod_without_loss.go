package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func drainPodWithoutLoss() kit.Behaviour {
	return kit.Behaviour{
		ID: "drain-pod-without-loss", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "Under externalTrafficPolicy=Local an endpoint drains without loss: its node's health check fails and it serves until the load balancer has gone elsewhere.",
		Promises: []promise.Promise{promise.DrainLocal, promise.DrainHealth},
		Source:   []string{"KEP-1669"},
		Needs:    []kit.Need{kit.NeedLB},
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // the load balancer has a pace of its own
			svc := s.Service(kit.Balanced, kit.ExternalLocal)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(a.Node), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(b.Node), "/", kit.Status(200))
			to := kit.TCP(svc.At(svc.AwaitIngress()))
			s.Expect(s.Outside(), to, kit.Pods(a, b))
			var began time.Time
			var down, gone time.Duration
			res := s.Throughout(s.Outside(), to, 50, func() {
				began = time.Now()
				svc.Endpoints(a.Draining(), b.Ready())
				s.ExpectHTTP(s.Outside(), svc.HealthPort(a.Node), "/", kit.Status(503))
				down = time.Since(began)
				s.Expect(s.Outside(), to, kit.Pods(b))
				gone = time.Since(began)
				svc.Endpoints(b.Ready())
				s.Expect(s.Outside(), to, kit.Pods(b))
			}, a.Client, b.Client)
			s.Say("503 after %s; last connection to the draining endpoint after %s; it may go after %s",
				down.Round(time.Millisecond), kit.LastAnswer(res, a.Client, began).Round(time.Millisecond), gone.Round(time.Millisecond))
		},
	}
}
