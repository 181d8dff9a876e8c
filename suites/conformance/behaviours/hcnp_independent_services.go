package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpIndependentServices() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-independent-services", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "Each Service has its own healthCheckNodePort, which tells of its endpoints alone, be there thirty more or one of its name in another namespace, and stays when another's goes.",
		Promises: []promise.Promise{promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			one, two := s.Service(kit.LoadBalanced, kit.ExternalLocal), s.Service(kit.LoadBalanced, kit.ExternalLocal)
			_, namesakes := one.Namesake(s.Nodes[1].A)
			one.Endpoints(s.Nodes[0].A.Ready())
			two.Endpoints(s.Nodes[1].A.Ready())
			for i, n := range s.Nodes[:2] {
				s.ExpectHTTP(s.Outside(), one.HealthPort(n), "/", kit.Status([]int{200, 503}[i]))
				s.ExpectHTTP(s.Outside(), two.HealthPort(n), "/", kit.Status([]int{503, 200}[i]))
				s.ExpectHTTP(s.Outside(), namesakes(n), "/", kit.Status([]int{503, 200}[i]))
			}
			for range 30 {
				svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
				svc.Endpoints(s.Nodes[2].A.Ready())
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[2]), "/", kit.Status(200))
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(503))
			}
			two.Delete()
			s.KeepsHTTP(kit.Heard, s.Outside(), one.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			one.Delete()
			s.KeepsHTTP(kit.Heard, s.Outside(), namesakes(s.Nodes[1]), "/", kit.Status(200))
		},
	}
}
