package behaviours

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpCountsDistinctReadyLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-counts-distinct-ready-local", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A healthCheckNodePort counts each ready endpoint of its node once: not those of other nodes, those not ready, or those that end.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53)))
			n := s.Nodes[0]
			weight := func(want string) func(*remote.Response) string {
				return func(r *remote.Response) string {
					if got := r.Header.Get("X-Load-Balancing-Endpoint-Weight"); got != want {
						return fmt.Sprintf("want weight %s, got %q (%s, status %d: %s)", want, got, r.Class, r.Status, r.Body)
					}
					var body struct {
						Local *int `json:"localEndpoints"`
					}
					if err := json.Unmarshal([]byte(r.Body), &body); err != nil || body.Local == nil || fmt.Sprint(*body.Local) != want {
						return fmt.Sprintf("want localEndpoints %s, got %q (%v)", want, r.Body, err)
					}
					return ""
				}
			}
			tcp := []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort)}
			svc.Slice("a", nil, n.A.Ready(), n.B.Ready(), s.Nodes[1].A.Ready())
			svc.Slice("b", tcp, n.A.Ready(), n.B.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", weight("2"))
			svc.Slice("b", tcp)
			svc.Slice("a", nil, n.A.Ready(), n.B.NotReady(), s.Nodes[1].A.Ready(), s.Nodes[1].B.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", weight("1"))
			svc.Slice("a", nil, n.A.Ready(), n.B.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", weight("2"))
			svc.Slice("a", nil, n.A.Draining(), n.B.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(n), "/", weight("1"))
		},
	}
}
