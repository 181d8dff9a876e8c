package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnp503WhenOnlyTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-503-when-only-terminating", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "A node whose endpoints all end answers 503 at the healthCheckNodePort while they still serve: the sign to drain; 200 where one of them is published as ready.",
		Promises: []promise.Promise{promise.DrainHealth, promise.HealthCheckNodePort, promise.Ready},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1669"},
		Upstream: "[sig-network] Services should fail health check node port if there are only terminating endpoints",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(n.A))
			svc.Endpoints(n.A.Draining())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(503))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(n.A))
			svc.Endpoints(n.A.Draining().With(new(true), new(true), new(true)))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
		},
	}
}
