package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollows() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP, by each of its ports, whose endpoint has gone reaches another one, without a new source port, be it still one of another Service, also after there was none for a while, with session affinity and without, from another node and from that of the endpoint, and so do two hundred of one client at once when several endpoints go together, those of the node's own network too, and where one change follows the other.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.UDP},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a ClusterIP service",
		Long:     true,
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
			five := []*kit.Pod{n[0].A, n[0].B, n[1].A, n[1].B, n[2].A}
			many.Endpoints(kit.ReadyAll(five)...)
			many.SliceAt("host", kit.HostPort, n[2].Ready())
			way, all := many.Ways(n[3].B.Client), append(kit.Clients(five...), n[2].Client)
			s.Each(way, kit.Only(all...))
			flows := s.Datagrams(way[0].From, way[0].To, 200) // as a server's socket holds at once
			flows.Reach(all...)
			many.DeleteSlice("host")
			many.Endpoints(n[3].A.Ready())
			flows.Reach(n[3].A.Client)
			few := s.Datagrams(way[0].From, way[0].To, 16)
			few.Reach(n[3].A.Client)
			for range 3 {
				other.Endpoints(n[0].A.Ready())
				many.Endpoints(n[1].A.Ready())
				other.Endpoints(n[0].A.Ready(), n[1].A.Ready(), n[2].A.Ready())
				many.Endpoints(n[3].A.Ready())
				many.Endpoints(n[0].B.Ready())
				few.Reach(n[0].B.Client)
				many.Endpoints(n[3].A.Ready())
				few.Reach(n[3].A.Client)
			}
		},
	}
}
