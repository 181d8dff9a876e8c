package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port for UDP is served on every node, to pods, nodes and outside, and its answers come from where the datagram was sent to, also when it nearly fills a packet or, over IPv4, has no checksum.",
		Promises: []promise.Promise{promise.AnyNode, promise.UDP},
		Source:   []string{"RFC 768: an all zero checksum means that the transmitter generated none"},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for endpoint-Service: udp",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			want := svc.Kinds()
			s.Each(svc.NodePortWaysOfAll(), want)
			nearFull(s, svc.NodePortWays(s.Nodes[3], s.Outside(), s.Nodes[3].B.Client), s.OfKinds()...)
		},
	}
}
