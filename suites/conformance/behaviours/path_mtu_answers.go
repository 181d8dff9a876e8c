package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUAnswers() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-answers", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Answers of 32 KiB come whole from the address of a load balancer in VIP mode, or an external IP, to a host outside where the path to it takes smaller packets than its link, under each policy.",
		Promises: []promise.Promise{promise.TCP, promise.Ingress, promise.ExternalIPs, promise.ExternalLocal},
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
			s.Narrow(n, host.Addr(s.Family), host.Addr(s.Family))
			directly := kit.Way{From: host, To: kit.TCP(n.At(s.Family))}
			s.Large(ways, directly, kit.LargeRequest, server.Client)
			svc.Update(kit.ExternalLocal)
			svc.Endpoints(n.A.Ready())
			s.Each(ways, kit.Pods(n.A).FromItself())
			s.Large(ways, directly, kit.LargeRequest, n.A.Client)
		},
	}
}
