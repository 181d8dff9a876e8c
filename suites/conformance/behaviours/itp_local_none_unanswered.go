package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalNoneUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-none-unanswered", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local, where a node has no endpoint and others have, the ClusterIP is not answered there, by TCP and UDP, also where their nodes' names have the node's in them; and an endpoint that is said to be on another node than before is there.",
		Promises: []promise.Promise{promise.InternalLocal, promise.InternalLocalOnly, promise.NodeName},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod to Pod",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("udp", corev1.ProtocolUDP, 80)))
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(here.A.Ready(), there.A.Ready())
			s.Expect(here.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(here.A))
			s.Expect(here.B.Client, kit.UDP(svc.ClusterIP("udp")), kit.Pods(here.A))
			svc.Endpoints(there.A.Ready())
			s.Expect(here.B.Client, kit.TCP(svc.ClusterIP()), kit.Unreachable())
			s.Expect(here.B.Client, kit.UDP(svc.ClusterIP("udp")), kit.Unreachable())
			s.Expect(there.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there.A))
			svc.Endpoints(there.A.Ready().On(here.Name+"0"), there.B.Ready().On("0"+here.Name))
			s.Expect(here.B.Client, kit.TCP(svc.ClusterIP()), kit.Unreachable())
			svc.Endpoints(there.A.Ready().On(here.Name)) // it is where its slice says that it is
			s.Expect(here.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there.A))
			s.Expect(there.B.Client, kit.TCP(svc.ClusterIP()), kit.Unreachable())
		},
	}
}
