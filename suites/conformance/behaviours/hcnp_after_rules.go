package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpAfterRules() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-after-rules", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A healthCheckNodePort that answers 200 does not run ahead of the rules: from then on every connection to the node is answered.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			n := s.Nodes[0]
			for range 3 {
				svc.Endpoints(n.A.Ready())
				s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
				res := s.Attempts(s.Outside(), kit.TCP(svc.NodePort(n)), remote.Batch{Attempts: 20})
				if sum := res.Summary(); !sum.All(remote.OK) {
					s.Fail("after the first 200, want every connection to the node port answered, got %s", sum)
				}
				svc.Endpoints()
				s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(503))
			}
		},
	}
}
