package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipMixedProtocols() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-mixed-protocols", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The same port of a load balancer serves TCP and UDP, each by its own endpoints.",
		Promises: []promise.Promise{promise.MixedProtocols, promise.EachProtocol, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1435"},
		Run: func(s *kit.Spec) {
			vip := s.FreeAddr()
			svc := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 80)))
			svc.Slice("tcp", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort)}, s.Nodes[0].A.Ready())
			svc.Slice("udp", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort)}, s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[2].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].B.Client, kit.UDP(svc.At(vip, "dns")), kit.Pods(s.Nodes[1].A))
		},
	}
}
