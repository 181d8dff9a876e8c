package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

// startSeen is how long an agent that was started without the API is watched. Those of
// today serve /healthz, if they do, within a second.
const startSeen = 3 * time.Second

func healthzNot200BeforeFirstSync() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-not-200-before-first-sync", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "An agent that starts without the API, and so knows no Service, does not answer 200 at /healthz until it does: no load balancer takes the node for one that forwards. What its predecessor has left goes on to be served, until it knows them and when it does.",
		Promises: []promise.Promise{promise.ProxyHealth, promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kube-proxy/app/server.go#L219-L224"},
		Features: []kit.Feature{kit.FeatureHealthz},
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
			n := s.Nodes[0]
			health := s.ProxyHealth(n)
			svc, a, b := s.Service(kit.NodePorts), s.Nodes[1].A, s.Nodes[2].A
			svc.Endpoints(a.Ready(), b.Ready())
			loads := []kit.Way{{From: n.B.Client, To: kit.TCP(svc.ClusterIP())}, {From: s.Outside(), To: kit.TCP(svc.NodePort(n))}}
			watched := func(f func()) { f() }
			if s.Has(kit.FeatureForwardsAlone) {
				watched = func(f func()) { s.UnderLoad(loads, f, a.Client, b.Client) }
			}
			s.ExpectHTTP(s.Outside(), health, s.Healthz(), kit.Status(200))
			watched(func() {
				s.WithoutAPI(func() {
					s.KillAgent(n)
					s.ExpectHTTP(s.Outside(), health, s.Healthz(), kit.NotStatus(200)) // its predecessor's last answer may come first
					for began := time.Now(); time.Since(began) < startSeen; {
						s.StillHTTP(s.Outside(), health, s.Healthz(), kit.NotStatus(200))
						s.Pause(50 * time.Millisecond)
					}
				})
				s.ExpectHTTP(s.Outside(), health, s.Healthz(), kit.Status(200))
			})
		},
	}
}
