package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Requests of 32 KiB from outside pass whole through the address of a load balancer in VIP mode, or an external IP, where the path from the node that they come to takes smaller packets than the client's link.",
		Promises: []promise.Promise{promise.TCP, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n, server := s.Nodes[0], s.Nodes[1].A
			svc, addrs := atAll(s)
			svc.Endpoints(server.Ready())
			host := s.HostBeyond(n)
			ways := ofPort(waysToAll(svc, addrs, host), 0) // by TCP
			s.Each(ways, kit.Pods(server))
			s.Narrow(n, server.Addr(s.Family), s.Nodes[1].Addr(s.Family))
			s.Large(ways, kit.Way{From: n.B.Client, To: kit.TCP(kit.At(server, s.Family))}, kit.LargeRequest, server.Client)
		},
	}
}
