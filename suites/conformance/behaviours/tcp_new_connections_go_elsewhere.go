package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpNewConnectionsGoElsewhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-new-connections-go-elsewhere", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "While an old TCP connection lasts at an endpoint that has gone, each new one from the same client goes to those that are left, also from a port from which it has reached the one that has gone, be that connection aborted or ended in order.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.ReadyEndpointsInside},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts), s.Nodes
			a, b, c := n[0].A, n[1].A, n[2].A
			inside := svc.Ways(n[3].B.Client)
			ways := append(svc.Ways(n[3].B.Client), svc.NodePortWays(n[3], s.Outside())...)
			var stay func()
			for _, left := range [][]*kit.Pod{{a, b, c}, {b, c}, {c}} {
				svc.Endpoints(kit.ReadyAll(left)...)
				s.Each(ways, kit.Pods(left...))
				for _, way := range ways { // from the ports that went elsewhere before
					samePorts(s, way, 21_000, left...)
					samePortsEnding(s, way, 21_100, false, left)
				}
				if stay == nil {
					stay = stand(s, inside)
				}
			}
			stay()
		},
	}
}
