package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-no-endpoints-rejected", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A connection or datagram from outside to a node port of a Service without endpoints is refused.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			for _, n := range s.Nodes[:2] {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Rejected())
				s.Expect(s.Outside(), kit.UDP(svc.NodePort(n, "dns")), kit.Rejected())
			}
		},
	}
}
