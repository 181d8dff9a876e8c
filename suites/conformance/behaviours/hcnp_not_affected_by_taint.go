package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpNotAffectedByTaint() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-not-affected-by-taint", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "The taint of cluster-autoscaler does not change a healthCheckNodePort: such a node drains by its endpoints leaving.",
		Promises: []promise.Promise{promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
			s.Taint(n, kit.ToBeDeleted())
			s.KeepsHTTP(kit.Heard, s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
		},
	}
}
