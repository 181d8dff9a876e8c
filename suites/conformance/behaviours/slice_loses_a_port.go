package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceLosesAPort() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-loses-a-port", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Endpoints whose slice has one of the ports no more, or none at all, or has it without a number, under another name or for another protocol, are not reached by that port of the Service, and by the others as before.",
		Promises: []promise.Promise{promise.SlicePorts, promise.PortName, promise.Synchronized},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.Both), s.Nodes
			tcp, udp := kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort), kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort)
			ways, other := svc.Ways(n[0].B.Client, n[3].Client), kit.SlicePort("other", corev1.ProtocolTCP, kit.PodPort)
			ask := func(ports []discoveryv1.EndpointPort, byTCP, byUDP kit.Want) {
				svc.Slice("a", ports, n[0].A.Ready())
				for i, way := range ways { // of each client by TCP, then by UDP
					s.Expect(way.From, way.To, []kit.Want{byTCP, byUDP}[i%2])
				}
			}
			svc.Slice("b", []discoveryv1.EndpointPort{udp}, n[1].A.Ready())
			all, one := kit.Pods(n[0].A, n[1].A), kit.Pods(n[0].A)
			ask([]discoveryv1.EndpointPort{tcp, udp}, one, all)
			ask([]discoveryv1.EndpointPort{}, kit.Unreachable(), kit.Pods(n[1].A))
			ask([]discoveryv1.EndpointPort{udp}, kit.Unreachable(), all)
			ask([]discoveryv1.EndpointPort{{Name: tcp.Name, Protocol: tcp.Protocol}, udp}, kit.Unreachable(), all)
			ask([]discoveryv1.EndpointPort{tcp}, one, kit.Pods(n[1].A))
			ask([]discoveryv1.EndpointPort{other}, kit.Unreachable(), kit.Pods(n[1].A))
			ask([]discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolUDP, kit.PodPort), udp}, kit.Unreachable(), all)
		},
	}
}
