package behaviours

import (
	"encoding/json"
	"fmt"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpBody() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-body", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "The answer of a healthCheckNodePort is JSON that names the Service, the number of local endpoints and whether the proxy is healthy.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			for i, want := range []struct{ status, endpoints int }{{200, 2}, {503, 0}} {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[i]), "/", func(r *remote.Response) string {
					var got struct {
						Service struct{ Namespace, Name string }
						Local   *int  `json:"localEndpoints"`
						Healthy *bool `json:"serviceProxyHealthy"`
					}
					if wrong := kit.Status(want.status)(r); wrong != "" {
						return wrong
					}
					err := json.Unmarshal([]byte(r.Body), &got)
					if err != nil || got.Local == nil || got.Healthy == nil {
						return fmt.Sprintf("want JSON with localEndpoints and serviceProxyHealthy (%v), got %q", err, r.Body)
					}
					if got.Service.Namespace != svc.Object().Namespace || got.Service.Name != svc.Object().Name || *got.Local != want.endpoints || !*got.Healthy {
						return fmt.Sprintf("want Service %s, %d local endpoints and a healthy proxy, got %s", svc.Object().Name, want.endpoints, r.Body)
					}
					return ""
				})
			}
		},
	}
}
