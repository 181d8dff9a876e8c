package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNoneHereDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-none-here-dropped", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node without endpoints drops what comes to its node port from outside, while others have some.",
		Promises: []promise.Promise{promise.ExternalLocalDrops},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("udp", corev1.ProtocolUDP, 80)))
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(there.A.Ready())
			s.Expect(here.A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there.A))
			s.Expect(here.A.Client, kit.UDP(svc.ClusterIP("udp")), kit.Pods(there.A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(here)), kit.Dropped())
			s.Expect(s.Outside(), kit.UDP(svc.NodePort(here, "udp")), kit.Dropped())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(there)), kit.Pods(there.A))
		},
	}
}
