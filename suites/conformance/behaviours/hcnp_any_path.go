package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpAnyPath() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-any-path", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A healthCheckNodePort answers the same at every path, so a load balancer may ask for any.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			for i, status := range []int{200, 503} {
				for _, path := range []string{"/", "/healthz", "/livez", "/a/b/c?d=e"} {
					s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[i]), path, kit.Status(status))
				}
			}
		},
	}
}
