package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-externalip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A UDP flow to an externalIP whose endpoint has gone reaches another one, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.ExternalIPs},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.ExternalIPs(addr), kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			client, to := s.Nodes[3].B.Client, kit.UDP(svc.At(addr, "dns"))
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			flows := s.Datagrams(client, to, 8)
			flows.Reach(s.Nodes[0].A.Client)
			svc.Endpoints(s.Nodes[1].A.Ready())
			flows.Reach(s.Nodes[1].A.Client)
			svc.Endpoints(s.Nodes[1].A.Ending(), s.Nodes[2].A.Ready())
			flows.Reach(s.Nodes[2].A.Client)
		},
	}
}
