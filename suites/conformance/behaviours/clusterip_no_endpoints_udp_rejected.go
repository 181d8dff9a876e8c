package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPNoEndpointsUDPRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-no-endpoints-udp-rejected", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A datagram to a ClusterIP whose Service has no endpoint is refused, by ICMP or by the call that sends it.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints()
			s.Expect(s.Nodes[0].A.Client, kit.UDP(svc.ClusterIP("dns")), kit.Rejected())
			s.Expect(s.Nodes[0].Client, kit.UDP(svc.ClusterIP("dns")), kit.Rejected())
		},
	}
}
