package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptWithoutService() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-without-service", Level: kit.Should, Profile: kit.ProfileTerminating,
		Says:     "A TCP connection stays whole when its Service is deleted, at the ClusterIP, a node port, the address of a load balancer in VIP mode and an external IP, while new ones are not answered.",
		Promises: []promise.Promise{promise.ConnectionsLeft, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Serial:   true, // others may be given the node port that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			pod, via := s.Nodes[0].A, s.Nodes[2]
			svc.Endpoints(pod.Ready())
			ways := ofPort(waysBy(s, via, svc, addrs), 0) // by TCP
			s.Each(ways, kit.Pods(pod))
			stay := stand(s, ways)
			svc.Delete()
			s.Each(ways, kit.Unreachable())
			stay()
		},
	}
}
