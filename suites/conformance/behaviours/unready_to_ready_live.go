package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func unreadyToReadyLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "unready-to-ready-live", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint that becomes ready gets connections and datagrams, and none any more once it is not, at the ClusterIP and at node ports, and so where several come and go at once beside one that stays.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should create endpoints for unready pods",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			svc.Endpoints(a.Ready(), b.NotReady())
			s.Each(ways, kit.Pods(a))
			svc.Endpoints(a.Ready(), b.Ready())
			s.Each(ways, kit.Pods(a, b))
			svc.Endpoints(a.NotReady(), b.Ready())
			s.Each(ways, kit.Pods(b))
			n := s.Nodes
			all := []*kit.Pod{n[0].A, n[0].B, n[1].A, n[1].B, n[2].A, n[2].B}
			for _, pods := range [][]*kit.Pod{{n[0].A, n[0].B, n[1].A}, {n[0].A, n[1].B, n[2].A}, {n[0].A}, all, {n[1].A, n[2].B}} {
				svc.Endpoints(kit.ReadyAll(pods)...)
				s.Each(ways, kit.Pods(pods...))
			}
		},
	}
}
