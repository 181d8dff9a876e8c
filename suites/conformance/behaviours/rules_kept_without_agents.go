package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func rulesKeptWithoutAgents() kit.Behaviour {
	return kit.Behaviour{
		ID: "rules-kept-without-agents", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "While the dataplane's agents are stopped, away and started again, all endpoints go on answering: TCP and UDP, at the ClusterIP and at node ports.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/119265"},
		Features: []kit.Feature{kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			svc.Endpoints(a.Ready(), b.Ready())
			loads := []kit.Way{
				{From: via.B.Client, To: kit.TCP(svc.ClusterIP())}, {From: via.B.Client, To: kit.UDP(svc.ClusterIP("dns"))},
				{From: s.Outside(), To: kit.TCP(svc.NodePort(via))}, {From: s.Outside(), To: kit.UDP(svc.NodePort(via, "dns"))},
			}
			s.UnderLoad(loads, func() {
				s.WithoutAgents(func() { s.Pause(time.Second) })
			}, a.Client, b.Client)
		},
	}
}
