package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func samePortTwoProtocols() kit.Behaviour {
	return kit.Behaviour{
		ID: "same-port-two-protocols", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "One port number for TCP and for UDP is two ports, with endpoints of their own, of which one stays when the other goes.",
		Promises: []promise.Promise{promise.EachProtocol, promise.MultiPort},
		Source:   []string{"KEP-1435"},
		Upstream: "[sig-network] Services should serve endpoints on same port and different protocols",
		Run: func(s *kit.Spec) {
			tcp, udp := kit.Port("tcp", corev1.ProtocolTCP, 53), kit.Port("udp", corev1.ProtocolUDP, 53)
			svc, client := s.Service(kit.Ports(tcp, udp)), s.Nodes[0].B.Client
			svc.Slice("tcp", []discoveryv1.EndpointPort{kit.SlicePort("tcp", corev1.ProtocolTCP, kit.PodPort)}, s.Nodes[0].A.Ready())
			svc.Slice("udp", []discoveryv1.EndpointPort{kit.SlicePort("udp", corev1.ProtocolUDP, kit.PodPort)}, s.Nodes[1].A.Ready())
			at := svc.ClusterIP("udp")
			s.Expect(client, kit.TCP(at), kit.Pods(s.Nodes[0].A))
			s.Expect(client, kit.UDP(at), kit.Pods(s.Nodes[1].A))
			s.Throughout(client, kit.TCP(at), 200, func() {
				svc.Update(kit.Ports(tcp))
				svc.DeleteSlice("udp")
				s.Expect(client, kit.UDP(at), kit.Unreachable())
			}, s.Nodes[0].A.Client)
		},
	}
}
