package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthz200() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-200", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A service proxy that works answers 200 at /healthz, at every node, to clients outside and inside.",
		Promises: []promise.Promise{promise.HealthOfProxies, promise.ProxyHealth},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/proxy_health.go"},
		Features: []kit.Feature{kit.FeatureHealthz},
		Upstream: "[sig-network] Networking should check kube-proxy urls",
		Run: func(s *kit.Spec) {
			for _, n := range s.Nodes {
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
				s.ExpectHTTP(s.Nodes[0].A.Client, s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			}
		},
	}
}
