package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthzNotAffectedByCordon() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-not-affected-by-cordon", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A node that is cordoned stays healthy at /healthz: it takes no new pods, but its Services go on.",
		Promises: []promise.Promise{promise.ProxyHealth},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes[0]
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			s.Cordon(n)
			// That it has seen the Node as cordoned is known when it has seen a taint come and go since.
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(503))
			s.Untaint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
		},
	}
}
