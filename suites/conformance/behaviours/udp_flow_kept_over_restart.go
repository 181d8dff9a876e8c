package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptOverRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-over-restart", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "UDP flows to a ClusterIP, a node port, the address of a load balancer in VIP mode and an external IP of a Service with a slice for each endpoint stay at their endpoints while the agents of the dataplane are away and when they are back.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.FlowsCleaned, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/122740"},
		Features: []kit.Feature{kit.FeatureConnectionsSurvive, kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			inSlicesOfTheirOwn(svc, a, b)
			ways := ofPort(waysBy(s, via, svc, addrs), 1) // by UDP
			s.Each(ways, kit.Pods(a, b))
			var flows []*kit.Flows
			for _, way := range ways {
				f := s.Flows(way.From, way.To, 8)
				f.Reach(a.Client, b.Client)
				flows = append(flows, f)
			}
			stay := func() { s.Stay(flows...) }
			s.WithoutAgents(stay)
			s.Each(ways, kit.Pods(a, b))
			stay()
		},
	}
}
