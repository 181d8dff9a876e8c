package behaviours

import (
	"fmt"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpHeaders() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-headers", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "The answer of a healthCheckNodePort says that it is JSON, not to be guessed at, and gives the number of endpoints as a weight.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			for i, weight := range []string{"2", "0"} {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[i]), "/", func(r *remote.Response) string {
					for name, want := range map[string]string{
						"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "X-Load-Balancing-Endpoint-Weight": weight,
					} {
						if got := r.Header.Get(name); got != want {
							return fmt.Sprintf("want header %s: %s, got %q (%s, status %d)", name, want, got, r.Class, r.Status)
						}
					}
					return ""
				})
			}
		},
	}
}
