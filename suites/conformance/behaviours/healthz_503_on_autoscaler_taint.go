package behaviours

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthz503OnAutoscalerTaint() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-503-on-autoscaler-taint", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A node that cluster-autoscaler is about to delete answers 503 at /healthz, where it may say that it is not eligible and not that it is, and 200 again when the taint is gone, be it that either happened while the agents were away; others do not care.",
		Promises: []promise.Promise{promise.HealthOfProxies, promise.ProxyHealth},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n, other := s.Nodes[0], s.Nodes[1]
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), ineligible)
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(other), s.Healthz(), kit.Status(200))
			s.Untaint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			if s.Met(kit.NeedAgents) {
				taint := kit.ToBeDeleted()
				taint.Effect = corev1.TaintEffectPreferNoSchedule // so that agents that tolerate none come back
				s.WithoutAgents(func() { s.Taint(n, taint) })
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), ineligible)
				s.KeepsHTTP(kit.Heard, s.Outside(), s.ProxyHealth(n), s.Healthz(), ineligible)
				s.WithoutAgents(func() { s.Untaint(n, taint) })
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			}
		},
	}
}

// ineligible is the answer of a node that is about to be deleted.
func ineligible(r *remote.Response) string {
	var said struct{ NodeEligible *bool }
	if err := json.Unmarshal([]byte(r.Body), &said); err == nil && said.NodeEligible != nil && *said.NodeEligible {
		return "want no node that is eligible, got " + r.Body
	}
	return kit.Status(503)(r)
}
