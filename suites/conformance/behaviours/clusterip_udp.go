package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Datagrams of pods and nodes to a ClusterIP reach each ready endpoint, and the answers come back, from the first of a client on, when they nearly fill a packet, and, over IPv4, when they have no checksum.",
		Promises: []promise.Promise{promise.ClusterIP, promise.UDP},
		Source:   []string{"RFC 768: an all zero checksum means that the transmitter generated none"},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: udp",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			want := svc.Kinds()
			s.Each(svc.Ways(s.Inside()...), want)
			nearFull(s, svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), s.OfKinds()...)
			for _, first := range svc.Ways(s.Nodes[2].A.Client, s.Nodes[3].A.Client) { // who have sent none yet
				s.Open(first.From, first.To, remote.Batch{Attempts: 1})
			}
		},
	}
}
