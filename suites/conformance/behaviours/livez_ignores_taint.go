package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func livezIgnoresTaint() kit.Behaviour {
	return kit.Behaviour{
		ID: "livez-ignores-taint", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "/livez answers 200 on a node that is about to be deleted: the proxy itself is well and must not be restarted.",
		Promises: []promise.Promise{promise.ProxyHealth},
		Features: []kit.Feature{kit.FeatureHealthz, kit.FeatureLivez},
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes[0]
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(503))
			r := s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Livez(), func(*remote.Response) string { return "" })
			if wrong := kit.Status(200)(r); wrong != "" {
				s.Fail("/livez of a node to be deleted: %s", wrong)
			}
		},
	}
}
