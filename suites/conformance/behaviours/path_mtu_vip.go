package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Requests of 32 KiB from outside pass whole through the address of a load balancer in VIP mode where the path from the node that they come to takes smaller packets than the client's link.",
		Promises: []promise.Promise{promise.TCP, promise.Ingress},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			n, server := s.Nodes[0], s.Nodes[1].A
			svc, vip := atVIP(s)
			svc.Endpoints(server.Ready())
			to := kit.TCP(svc.At(vip))
			host := s.HostBeyond(n)
			s.Expect(host, to, kit.Pods(server))
			s.Narrow(n, server.Addr(s.Family), s.Nodes[1].Addr(s.Family))
			s.Large([]kit.Way{{From: host, To: to}}, kit.Way{From: n.B.Client, To: kit.TCP(kit.At(server, s.Family))}, kit.LargeRequest, server.Client)
		},
	}
}
