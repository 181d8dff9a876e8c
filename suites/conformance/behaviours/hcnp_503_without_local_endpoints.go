package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnp503WithoutLocalEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-503-without-local-endpoints", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "The healthCheckNodePort of a node answers 503 while no ready endpoint is there, wherever else there are some.",
		Promises: []promise.Promise{promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow] should only target nodes with endpoints",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			svc.Endpoints(s.Nodes[0].A.NotReady(), s.Nodes[1].A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(503))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(200))
			svc.Endpoints()
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
		},
	}
}
