package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortLoopback() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-loopback", Level: kit.May, Profile: kit.ProfileCore,
		Says:     "A node reaches a node port at 127.0.0.1 too.",
		Promises: []promise.Promise{promise.LoopbackNodePorts},
		Source:   []string{"KEP-3866"},
		Features: []kit.Feature{kit.FeatureLoopback},
		Run: func(s *kit.Spec) {
			if s.Family == corev1.IPv6Protocol {
				s.Skip("what starts at ::1 leaves no interface: IPv6 has no route_localnet")
			}
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			port := svc.NodePort(s.Nodes[0]).Port()
			s.Expect(s.Nodes[0].Client, kit.TCP(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
