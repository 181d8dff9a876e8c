package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-changed-while-away", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "When the agents are back healthCheckNodePorts tell of what there is then: of a Service that stayed as it was, one whose endpoint moved, one that is new and none that is gone.",
		Promises: []promise.Promise{promise.HealthCheckNodePort, promise.Synchronized},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes
			check := func(svc *kit.Service, on, off *kit.Node) {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(on), "/", kit.Status(200))
				s.ExpectHTTP(s.Outside(), svc.HealthPort(off), "/", kit.Status(503))
			}
			var all []*kit.Service
			made := func() *kit.Service {
				svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
				svc.Endpoints(n[0].A.Ready())
				all = append(all, svc)
				return svc
			}
			stayed, moved, gone := made(), made(), made()
			for _, svc := range all {
				check(svc, n[0], n[1])
			}
			var fresh *kit.Service
			s.WithoutAgents(func() {
				moved.Endpoints(n[1].A.Ready())
				gone.Delete()
				fresh = made()
			})
			check(stayed, n[0], n[1])
			check(moved, n[1], n[0])
			check(fresh, n[0], n[1])
			s.ExpectNoCheck(s.Outside(), gone.HealthPort(n[0]))
		},
	}
}
