package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpClosedWhenServiceDeleted() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-closed-when-service-deleted", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "At the healthCheckNodePort of a Service that is gone nobody says 200 any more, on any node.",
		Promises: []promise.Promise{promise.HealthCheckNodePort, promise.Synchronized},
		Writes:   kit.SinceClass,
		Serial:   true, // others may be given the health check port that it gives back
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			svc.Delete()
			s.ExpectNoCheck(s.Outside(), svc.HealthPort(s.Nodes[0]))
			s.ExpectNoCheck(s.Outside(), svc.HealthPort(s.Nodes[1]))
		},
	}
}
