package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollows() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP, by each of its ports, whose endpoint has gone reaches another one, without a new source port, be it still one of another Service, also after there was none for a while, with session affinity and without, from another node and from that of the endpoint, and so do two hundred of one client at once.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.UDP},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a ClusterIP service",
		Run: func(s *kit.Spec) {
			n := s.Nodes
			other := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			other.Endpoints(n[0].A.Ready(), n[1].A.Ready(), n[2].A.Ready())
			for _, affinity := range affinities() {
				svc := s.Service(affinity, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53), kit.Port("more", corev1.ProtocolUDP, 54)))
				svc.Endpoints(n[0].A.Ready())
				follow(s, svc, svc.Ways(n[3].B.Client, n[0].B.Client), n[0].A, n[1].A, n[2].A)
			}
			many := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			many.Endpoints(n[0].A.Ready())
			way := many.Ways(n[3].B.Client)
			s.Each(way, kit.Pods(n[0].A))
			flows := s.Datagrams(way[0].From, way[0].To, 200) // as a server's socket holds at once
			flows.Reach(n[0].A.Client)
			many.Endpoints(n[1].A.Ready())
			flows.Reach(n[1].A.Client)
		},
	}
}
