package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowNToZeroEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-n-to-zero-endpoints", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow is answered again when its Service had lost every endpoint for a while and then has another one.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			client, to := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			flows := s.Datagrams(client, to, 8)
			flows.Reach(s.Nodes[0].A.Client)
			svc.Endpoints()
			s.Expect(client, to, kit.Unreachable())
			svc.Endpoints(s.Nodes[1].A.Ready())
			flows.Reach(s.Nodes[1].A.Client)
		},
	}
}
