package behaviours

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthzBody() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-body", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "/healthz and /livez say in JSON when the proxy was last up to date and how each IP family is; /healthz also whether the node is eligible.",
		Promises: []promise.Promise{promise.ProxyHealth},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/proxy_health.go"},
		Features: []kit.Feature{kit.FeatureHealthz, kit.FeatureLivez},
		Run: func(s *kit.Spec) {
			for _, path := range []string{s.Healthz(), s.Livez()} {
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(s.Nodes[0]), path, func(r *remote.Response) string {
					var got struct {
						LastUpdated, CurrentTime *time.Time
						NodeEligible             *bool
						Healthy                  *bool
						Status                   map[corev1.IPFamily]struct{ LastUpdated *time.Time }
					}
					err := json.Unmarshal([]byte(r.Body), &got)
					switch {
					case err != nil:
						return fmt.Sprintf("want JSON (%v), got %q", err, r.Body)
					case got.LastUpdated == nil || got.CurrentTime == nil || got.CurrentTime.IsZero():
						return "want lastUpdated and currentTime, got " + r.Body
					case got.Healthy == nil || !*got.Healthy:
						return "want healthy: true, got " + r.Body
					case (path == s.Healthz()) != (got.NodeEligible != nil):
						return "want nodeEligible at /healthz alone, got " + path + " " + r.Body
					case got.Status[s.Family].LastUpdated == nil:
						return fmt.Sprintf("want the status of %s, got %s", s.Family, r.Body)
					case r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Content-Type-Options") != "nosniff":
						return fmt.Sprintf("want JSON that is not to be guessed at, got headers %v", r.Header)
					}
					return ""
				})
			}
		},
	}
}
