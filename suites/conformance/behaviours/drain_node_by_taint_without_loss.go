package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func drainNodeByTaintWithoutLoss() kit.Behaviour {
	return kit.Behaviour{
		ID: "drain-node-by-taint-without-loss", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "Under externalTrafficPolicy=Cluster a node about to be deleted drains without loss: the load balancer goes elsewhere, and connections through the node stay whole.",
		Promises: []promise.Promise{promise.HealthOfProxies, promise.ProxyHealth, promise.Masquerade},
		Features: []kit.Feature{kit.FeatureHealthz, kit.FeatureMasquerade},
		Needs:    []kit.Need{kit.NeedLB, kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // the load balancer has a pace of its own
			svc, n := s.Service(kit.Balanced), s.Nodes[0]
			a, b := s.Nodes[1].A, s.Nodes[2].A
			svc.Endpoints(a.Ready(), b.Ready())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(200))
			to := kit.TCP(svc.At(svc.AwaitIngress()))
			s.Expect(s.Outside(), to, kit.Pods(a, b))
			flows := s.Flows(s.Outside(), to, 32) // by way of all nodes, in turn
			began := time.Now()
			s.Throughout(s.Outside(), to, 50, func() {
				s.Taint(n, kit.ToBeDeleted())
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), s.Healthz(), kit.Status(503))
				down := time.Since(began)
				// What other nodes forward has another source: it is masqueraded.
				s.Expect(s.Outside(), to, kit.Pods(a, b).NotFrom(n.Addr(s.Family)))
				s.Say("503 after %s; no connection by way of the node after %s", down.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
				flows.Stay()
			}, a.Client, b.Client)
		},
	}
}
