package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowZeroToNEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-zero-to-n-endpoints", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow that was begun while the Service had no endpoint is answered once there is one, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.UDP},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when initial unready endpoints get ready",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints()
			nodePort, cluster := kit.UDP(svc.NodePort(s.Nodes[1], "dns")), kit.UDP(svc.ClusterIP("dns"))
			s.Expect(s.Nodes[0].B.Client, cluster, kit.Unreachable())
			inside, outside := s.Datagrams(s.Nodes[0].B.Client, cluster, 8), s.Datagrams(s.Outside(), nodePort, 8)
			inside.Unanswered()
			outside.Unanswered()
			svc.Endpoints(s.Nodes[2].A.Ready())
			inside.Reach(s.Nodes[2].A.Client)
			outside.Reach(s.Nodes[2].A.Client)
		},
	}
}
