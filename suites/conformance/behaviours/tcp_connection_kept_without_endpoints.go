package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptWithoutEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-without-endpoints", Level: kit.Should, Profile: kit.ProfileTerminating,
		Says:     "A TCP connection stays whole when its endpoint is no longer ready, when it leaves the Service, and when there is none any more, while new ones are not answered, at the ClusterIP, a node port, the address of a load balancer in VIP mode and an external IP.",
		Promises: []promise.Promise{promise.ConnectionsLeft, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			a, b, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2]
			svc.Endpoints(a.Ready())
			ways := ofPort(append(waysBy(s, via, svc, addrs), svc.Ways(via.Client)...), 0) // by TCP
			s.Each(ways, kit.Pods(a))
			stay := stand(s, ways)
			for _, left := range [][]kit.Endpoint{{a.NotReady(), b.Ready()}, {b.Ready()}} {
				svc.Endpoints(left...)
				s.Each(ways, kit.Pods(b))
				stay()
			}
			svc.Endpoints()
			s.Each(ways, kit.Unreachable())
			stay()
		},
	}
}
