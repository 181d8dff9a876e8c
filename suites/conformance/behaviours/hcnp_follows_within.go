package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpFollowsWithin() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-follows-within", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A healthCheckNodePort follows its endpoints within three seconds, in both directions, so that a load balancer hears of it in time.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/apis/config/v1alpha1/defaults.go"},
		Serial:   true, // it is about time, which others would take
		Run: func(s *kit.Spec) {
			const within = 3 * time.Second // kube-proxy's minSyncPeriod is one
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
			var slowest time.Duration
			for range 3 {
				for _, to := range []struct {
					status int
					e      kit.Endpoint
				}{{503, n.A.Draining()}, {200, n.A.Ready()}} {
					began := time.Now()
					svc.Endpoints(to.e)
					s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(to.status))
					slowest = max(slowest, time.Since(began))
				}
			}
			s.Say("the slowest of the changes was followed after %s", slowest.Round(time.Millisecond))
			if slowest > within {
				s.Fail("the healthCheckNodePort followed after %s, want %s at most", slowest, within)
			}
		},
	}
}
