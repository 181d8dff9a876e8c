package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portNumbersOfAnySize() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-numbers-of-any-size", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service's port may have any number, by TCP and UDP, from the smallest to the largest, and lead to a large one of the endpoints.",
		Promises: []promise.Promise{promise.AnyTargetPort, promise.ClusterIP},
		Run: func(s *kit.Spec) {
			pod := s.Nodes[1].A
			target := int32(s.Serve(65000, 1, pod)[0])
			svc := s.Service(kit.Ports(
				kit.Port("first", corev1.ProtocolTCP, 1), kit.Port("last", corev1.ProtocolTCP, 65535), kit.Port("half", corev1.ProtocolTCP, 32768),
				kit.Port("first-dns", corev1.ProtocolUDP, 1), kit.Port("last-dns", corev1.ProtocolUDP, 65535), kit.Port("half-dns", corev1.ProtocolUDP, 32768),
			))
			svc.Endpoints(pod.Ready())
			s.Each(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), kit.Pods(pod).Times(10))
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("last", corev1.ProtocolTCP, target), kit.SlicePort("last-dns", corev1.ProtocolUDP, target)}, pod.Ready())
			for _, to := range []kit.Target{kit.TCP(svc.ClusterIP("last")), kit.UDP(svc.ClusterIP("last-dns"))} {
				s.Expect(s.Nodes[0].B.Client, to, kit.Pods(pod).ServedAt(uint16(target)))
			}
		},
	}
}
