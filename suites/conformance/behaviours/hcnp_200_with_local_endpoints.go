package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnp200WithLocalEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-200-with-local-endpoints", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "The healthCheckNodePort of a node with a ready endpoint answers 200, to clients outside and inside.",
		Promises: []promise.Promise{promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			for _, n := range s.Nodes[:2] {
				for _, c := range []kit.Client{s.Outside(), s.Nodes[2].Client, s.Nodes[2].A.Client} {
					s.ExpectHTTP(c, svc.HealthPort(n), "/", kit.Status(200))
				}
			}
		},
	}
}
