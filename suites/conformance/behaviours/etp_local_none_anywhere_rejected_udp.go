package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNoneAnywhereRejectedUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-none-anywhere-rejected-udp", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "Under externalTrafficPolicy=Local a node port refuses datagrams, and does not drop, if the Service has no endpoint on any node.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny},
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolUDP, 80)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			for _, n := range s.Nodes[:2] {
				s.Expect(s.Outside(), kit.UDP(svc.NodePort(n)), kit.Pods(n.A))
			}
			svc.Endpoints(s.Nodes[0].A.NotReady())
			for _, n := range s.Nodes[:2] {
				s.Expect(s.Outside(), kit.UDP(svc.NodePort(n)), kit.Rejected())
			}
		},
	}
}
