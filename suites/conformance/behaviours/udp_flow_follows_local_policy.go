package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-local-policy", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow under internalTrafficPolicy=Local whose endpoint has gone reaches another one of the same node.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.InternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a ClusterIP service with InternalTrafficPolicy set to Local",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			client, to := n.Client, kit.UDP(svc.ClusterIP("dns"))
			s.Expect(client, to, kit.Pods(n.A))
			flows := s.Datagrams(client, to, 8)
			flows.Reach(n.A.Client)
			svc.Endpoints(n.B.Ready(), s.Nodes[1].A.Ready())
			flows.Reach(n.B.Client)
		},
	}
}
