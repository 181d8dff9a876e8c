package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-from-node", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow from the network of a node whose endpoint has gone reaches another one, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.UDP},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a ClusterIP service and client is hostNetwork",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			client, to := s.Nodes[3].Client, kit.UDP(svc.ClusterIP("dns"))
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
