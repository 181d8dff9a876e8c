package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityPerServicePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-per-service-port", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Affinity is kept for each port of a Service alone: a client may have another endpoint at another port, and at the same number by the other protocol.",
		Promises: []promise.Promise{promise.AffinityPerPort},
		Features: []kit.Feature{kit.FeatureAffinityPerPort},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("other", corev1.ProtocolTCP, 81)))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			differ := false
			for _, c := range kit.Clients(pods...) { // by chance all are the same once in 10^7 runs
				first := s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...)
				second := s.ExpectOne(c, kit.TCP(svc.ClusterIP("other")), 5, kit.Clients(pods...)...)
				s.Expect(c, kit.TCP(svc.ClusterIP()), kit.Only(first).Times(5))
				differ = differ || first.Name != second.Name
			}
			if !differ {
				s.Fail("each of %d clients has the same endpoint at both ports, of %d", len(pods), len(pods))
			}
			numbered := s.Service(kit.Sticky(600), kit.Ports(kit.Port("tcp", corev1.ProtocolTCP, 53), kit.Port("udp", corev1.ProtocolUDP, 53)))
			numbered.Slice("tcp", []discoveryv1.EndpointPort{kit.SlicePort("tcp", corev1.ProtocolTCP, kit.PodPort)}, kit.ReadyAll(pods[:4])...)
			numbered.Slice("udp", []discoveryv1.EndpointPort{kit.SlicePort("udp", corev1.ProtocolUDP, kit.PodPort)}, kit.ReadyAll(pods[4:])...)
			client, tcp, udp := s.Nodes[0].B.Client, kit.TCP(numbered.ClusterIP("tcp")), kit.UDP(numbered.ClusterIP("udp"))
			byTCP, byUDP := s.ExpectOne(client, tcp, 5, kit.Clients(pods[:4]...)...), s.ExpectOne(client, udp, 5, kit.Clients(pods[4:]...)...)
			for range 8 { // assigned anew each time it is the same by chance once in 4^8
				s.Expect(client, tcp, kit.Only(byTCP).Times(2))
				s.Expect(client, udp, kit.Only(byUDP).Times(2))
			}
		},
	}
}
