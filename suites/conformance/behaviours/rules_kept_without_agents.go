package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func rulesKeptWithoutAgents() kit.Behaviour {
	return kit.Behaviour{
		ID: "rules-kept-without-agents", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While the dataplane's agents are stopped, away and started again, all endpoints go on answering: TCP and UDP, at the ClusterIP, at node ports, the address of a load balancer in VIP mode and an external IP, of a Service with a slice for each endpoint.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/119265"},
		Features: []kit.Feature{kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			inSlicesOfTheirOwn(svc, a, b)
			loads := waysBy(s, via, svc, addrs)
			s.UnderLoad(loads, func() {
				s.WithoutAgents(func() { s.Pause(time.Second) })
			}, a.Client, b.Client)
		},
	}
}
