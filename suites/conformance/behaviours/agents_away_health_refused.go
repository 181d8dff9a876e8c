package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func agentsAwayHealthRefused() kit.Behaviour {
	return kit.Behaviour{
		ID: "agents-away-health-refused", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While no agent runs, nobody answers at health check node ports and /healthz, so that a load balancer knows; when agents are back, they answer 200 again.",
		Promises: []promise.Promise{promise.ProxyHealth, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/service_health.go"},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.LoadBalanced, kit.ExternalLocal), s.Nodes[0]
			svc.Endpoints(n.A.Ready())
			healthy := func() {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			}
			healthy()
			s.WithoutAgents(func() {
				s.ExpectClosed(s.Outside(), svc.HealthPort(n))
				s.ExpectClosed(s.Outside(), s.ProxyHealth(n))
			})
			healthy()
		},
	}
}
