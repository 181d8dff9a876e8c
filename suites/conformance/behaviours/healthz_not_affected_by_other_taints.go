package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthzNotAffectedByOtherTaints() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-not-affected-by-other-taints", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "Other taints of a node, such as those that keep pods away, do not change /healthz.",
		Promises: []promise.Promise{promise.ProxyHealth},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes[0]
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			s.Taint(n, corev1.Taint{Key: "example.com/dedicated", Effect: corev1.TaintEffectNoSchedule})
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(503))
			s.Untaint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
		},
	}
}
