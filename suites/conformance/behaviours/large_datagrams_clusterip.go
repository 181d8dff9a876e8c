package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func largeDatagramsClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "large-datagrams-clusterip", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "Datagrams larger than a packet, sent in fragments, pass through a ClusterIP, and from outside through a node port, and so do their answers.",
		Promises: []promise.Promise{promise.LargeDatagrams},
		Upstream: "[sig-network] Networking Granular Checks: Services should be able to handle large requests: udp",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			servers := []kit.Client{s.Nodes[0].A.Client, s.Nodes[1].A.Client}
			for _, way := range append(svc.Ways(s.Nodes[0].B.Client), svc.NodePortWays(s.Nodes[0], s.Outside())...) {
				s.Expect(way.From, way.To, kit.Only(servers...))
				s.All(way.From, way.To, s.Attempts(way.From, way.To, remote.Batch{Attempts: 80, Payload: 4000, Concurrency: 8}), servers...)
			}
		},
	}
}
