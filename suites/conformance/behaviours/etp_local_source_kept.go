package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalSourceKept() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-source-kept", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local endpoints see the outside client's own address, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.SourceTrusted},
		Upstream: "[sig-network] Services should support externalTrafficPolicy=Local for type=NodePort",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("udp", corev1.ProtocolUDP, 80)))
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			want := kit.Pods(n.A).From(s.Source(s.Outside(), n))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), want)
			s.Expect(s.Outside(), kit.UDP(svc.NodePort(n, "udp")), want)
		},
	}
}
