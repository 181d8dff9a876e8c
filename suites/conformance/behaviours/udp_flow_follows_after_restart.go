package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsAfterRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-after-restart", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow whose endpoint has gone while the agents were away reaches another one when they are back.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.Synchronized},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			client, to := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			flows := s.Datagrams(client, to, 8)
			flows.Reach(s.Nodes[0].A.Client)
			s.WithoutAgents(func() { svc.Endpoints(s.Nodes[1].A.Ready()) })
			flows.Reach(s.Nodes[1].A.Client)
		},
	}
}
