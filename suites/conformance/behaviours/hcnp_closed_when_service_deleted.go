package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func hcnpClosedWhenServiceDeleted() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-closed-when-service-deleted", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:   "The healthCheckNodePort of a Service that is gone is closed on every node.",
		Source: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/service_health.go"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			svc.Delete()
			s.ExpectClosed(s.Outside(), svc.HealthPort(s.Nodes[0]))
			s.ExpectClosed(s.Outside(), svc.HealthPort(s.Nodes[1]))
		},
	}
}
