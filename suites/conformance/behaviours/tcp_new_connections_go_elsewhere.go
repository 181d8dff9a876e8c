package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpNewConnectionsGoElsewhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-new-connections-go-elsewhere", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "While an old TCP connection lasts at an endpoint that has gone, each new one from the same client goes to those that are left, also from a port from which it has reached the one that has gone.",
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
					res := s.Attempts(way.From, way.To, remote.Batch{Attempts: 60, SourcePort: 21_000, SourcePorts: 60, Abort: true, Concurrency: 8})
					s.All(way.From, way.To, res, kit.Clients(left...)...)
				}
				if stay == nil {
					stay = stand(s, inside)
				}
			}
			stay()
		},
	}
}
