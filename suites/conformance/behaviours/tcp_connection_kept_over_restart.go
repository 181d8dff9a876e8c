package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptOverRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-over-restart", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "TCP connections to a ClusterIP, a node port, the address of a load balancer in VIP mode and an external IP of a Service with a slice for each endpoint stay whole while the agents of the dataplane are away, and when they are back and follow the next change.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/122740"},
		Features: []kit.Feature{kit.FeatureConnectionsSurvive, kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			a, b, c, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A, s.Nodes[2]
			inSlicesOfTheirOwn(svc, a, b)
			ways := ofPort(waysBy(s, via, svc, addrs), 0) // by TCP
			s.Each(ways, kit.Pods(a, b))
			stay := stand(s, ways)
			s.WithoutAgents(func() {
				stay()
				s.Pause(2 * time.Second) // they are idle when the agents start
			})
			stay()
			inSlicesOfTheirOwn(svc, a, b, c)
			s.Each(ways, kit.Pods(a, b, c))
			stay()
		},
	}
}
