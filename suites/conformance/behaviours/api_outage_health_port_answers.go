package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func apiOutageHealthPortAnswers() kit.Behaviour {
	return kit.Behaviour{
		ID: "api-outage-health-port-answers", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While no node reaches the API, health check node ports, /healthz and /livez go on answering what they answered: a load balancer must not take away all nodes, nor a kubelet end what works. When they reach it again they hear of a node that is to be deleted.",
		Promises: []promise.Promise{promise.ProxyHealth, promise.HealthCheckNodePort, promise.HealthOfProxies},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/healthcheck/proxy_health.go"},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			with, without := svc.HealthPort(s.Nodes[0]), svc.HealthPort(s.Nodes[1])
			s.ExpectHTTP(s.Outside(), with, "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), without, "/", kit.Status(503))
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(s.Nodes[0]), s.Healthz(), kit.Status(200))
			s.WithoutAPI(func() {
				for began := time.Now(); time.Since(began) < 2*time.Second; {
					s.StillHTTP(s.Outside(), with, "/", kit.Status(200))
					s.StillHTTP(s.Outside(), without, "/", kit.Status(503))
					s.StillHTTP(s.Outside(), s.ProxyHealth(s.Nodes[0]), s.Healthz(), kit.Status(200))
					if s.Has(kit.FeatureLivez) {
						s.StillHTTP(s.Outside(), s.ProxyHealth(s.Nodes[0]), s.Livez(), kit.Status(200))
					}
					s.Pause(100 * time.Millisecond)
				}
			})
			if s.Met(kit.NeedTaint) {
				s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
				n := s.Nodes[2]
				if s.Family == corev1.IPv6Protocol {
					n = s.Nodes[3] // beside the other family, which has its own
				}
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
				s.Taint(n, kit.ToBeDeleted())
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), ineligible)
			}
		},
	}
}
