package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthzNotAffectedByNotReadyNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-not-affected-by-not-ready-node", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A node of which the API says that it is not ready stays healthy at /healthz: that its kubelet is in trouble is no reason to take traffic from its Services.",
		Promises: []promise.Promise{promise.ProxyHealth},
		Source:   []string{"KEP-3458", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/proxy_health.go#L178-L197"},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes[0]
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			s.WhileNotReady(n, func() {
				// That it has seen the Node as not ready is known when it has seen a taint come and go since.
				began := time.Now()
				s.Taint(n, kit.ToBeDeleted())
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(503))
				if late := time.Since(began); late > kit.WhileSaid/2 {
					s.Inconclusive("the dataplane takes %s to follow a taint, and a kubelet does not leave its node that long", late)
				}
				s.Untaint(n, kit.ToBeDeleted())
				s.ExpectHTTPWithin(kit.WhileSaid, s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			})
		},
	}
}
