package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
)

func hcnpNotAffectedByTaint() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-not-affected-by-taint", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:   "The taint of cluster-autoscaler does not change a healthCheckNodePort: such a node drains by its endpoints leaving.",
		Source: []string{"KEP-3836"},
		Needs:  []kit.Need{kit.NeedTaint},
		Serial: true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(200))
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(503))
			r := s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", func(*remote.Response) string { return "" })
			if wrong := kit.Status(200)(r); wrong != "" {
				s.Fail("health check node port of a node to be deleted: %s", wrong)
			}
		},
	}
}
