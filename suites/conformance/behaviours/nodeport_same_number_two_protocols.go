package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortSameNumberTwoProtocols() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-same-number-two-protocols", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port's number for TCP and for UDP is two node ports, with endpoints of their own, of which one stays when the other goes.",
		Promises: []promise.Promise{promise.EachProtocol, promise.EveryNode},
		Source:   []string{"KEP-1435"},
		Upstream: "[sig-network] Services should be able to update service type to NodePort listening on same port number but different protocols",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("tcp", corev1.ProtocolTCP, 53), kit.Port("udp", corev1.ProtocolUDP, 53)))
			if svc.NodePort(s.Nodes[0], "tcp") != svc.NodePort(s.Nodes[0], "udp") {
				svc.Update(func(o *corev1.Service) { o.Spec.Ports[1].NodePort = o.Spec.Ports[0].NodePort })
			}
			svc.Slice("tcp", []discoveryv1.EndpointPort{kit.SlicePort("tcp", corev1.ProtocolTCP, kit.PodPort)}, s.Nodes[0].A.Ready())
			svc.Slice("udp", []discoveryv1.EndpointPort{kit.SlicePort("udp", corev1.ProtocolUDP, kit.PodPort)}, s.Nodes[1].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0], "tcp")), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Outside(), kit.UDP(svc.NodePort(s.Nodes[0], "udp")), kit.Pods(s.Nodes[1].A))
			client, gone := s.Nodes[0].B.Client, kit.UDP(svc.ClusterIP("udp"))
			s.Expect(client, gone, kit.Pods(s.Nodes[1].A))
			svc.Update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
			s.Expect(client, gone, kit.Unreachable()) // its node has followed
			s.Each(svc.NodePortWays(s.Nodes[0], s.Outside(), client), kit.Pods(s.Nodes[0].A))
		},
	}
}
