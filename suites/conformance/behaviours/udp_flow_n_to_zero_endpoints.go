package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowNToZeroEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-n-to-zero-endpoints", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow is answered no more when its Service loses its last endpoint, and again when it has another one.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/139628"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			client, to := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			flows := s.Datagrams(client, to, 8)
			flows.Reach(s.Nodes[0].A.Client)
			svc.Endpoints()
			s.Expect(client, to, kit.Unreachable())
			flows.Cease()
			svc.Endpoints(s.Nodes[1].A.Ready())
			flows.Reach(s.Nodes[1].A.Client)
		},
	}
}
