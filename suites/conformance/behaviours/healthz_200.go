package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func healthz200() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-200", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "A service proxy that works answers 200 at /healthz and /livez of port 10256, at every node, to clients outside and inside.",
		Source:   []string{"KEP-3836", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/proxy_health.go"},
		Upstream: "[sig-network] Networking should check kube-proxy urls",
		Run: func(s *kit.Spec) {
			for _, n := range s.Nodes {
				for _, path := range []string{"/healthz", "/livez"} {
					s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), path, kit.Status(200))
					s.ExpectHTTP(s.Nodes[0].A.Client, s.ProxyHealth(n), path, kit.Status(200))
				}
			}
		},
	}
}
