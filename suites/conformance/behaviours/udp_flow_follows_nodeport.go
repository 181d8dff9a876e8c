package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-nodeport", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow from outside to a node port whose endpoint has gone reaches another one, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.EveryNode},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a NodePort service",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			client, to := s.Outside(), kit.UDP(svc.NodePort(s.Nodes[3], "dns"))
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
