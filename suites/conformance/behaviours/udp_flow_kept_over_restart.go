package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptOverRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-over-restart", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "UDP flows stay at their endpoints while the agents of the dataplane are away and when they are back.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.FlowsCleaned},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/122740"},
		Features: []kit.Feature{kit.FeatureConnectionsSurvive, kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			inside, cluster := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			outside, nodePort := s.Outside(), kit.UDP(svc.NodePort(s.Nodes[2], "dns"))
			s.Expect(inside, cluster, kit.Pods(a, b))
			s.Expect(outside, nodePort, kit.Pods(a, b))
			flows := []*kit.Flows{s.Flows(inside, cluster, 8), s.Flows(outside, nodePort, 8)}
			for _, f := range flows {
				f.Reach(a.Client, b.Client)
			}
			s.WithoutAgents(func() {
				for _, f := range flows {
					f.Stay()
				}
			})
			s.Expect(inside, cluster, kit.Pods(a, b))
			for _, f := range flows {
				f.Stay()
			}
		},
	}
}
