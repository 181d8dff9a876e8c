package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptOverRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-over-restart", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "TCP connections stay whole while the agents of the dataplane are away, and when they are back and follow the next change.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/122740"},
		Features: []kit.Feature{kit.FeatureConnectionsSurvive, kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			a, b, c := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A
			svc.Endpoints(a.Ready(), b.Ready())
			inside, cluster := s.Nodes[2].B.Client, kit.TCP(svc.ClusterIP())
			outside, nodePort := s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2]))
			s.Expect(inside, cluster, kit.Pods(a, b))
			s.Expect(outside, nodePort, kit.Pods(a, b))
			flows := []*kit.Flows{s.Flows(inside, cluster, 16), s.Flows(outside, nodePort, 16)}
			stay := func() {
				for _, f := range flows {
					f.Stay()
				}
			}
			s.WithoutAgents(func() {
				stay()
				s.Pause(2 * time.Second) // they are idle when the agents start
			})
			stay()
			svc.Endpoints(a.Ready(), b.Ready(), c.Ready())
			s.Expect(inside, cluster, kit.Pods(a, b, c))
			stay()
		},
	}
}
