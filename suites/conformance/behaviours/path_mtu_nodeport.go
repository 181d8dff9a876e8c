package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-nodeport", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Requests of 32 KiB from outside pass whole through a node port where the path from that node to the endpoint takes smaller packets than the client's link.",
		Promises: []promise.Promise{promise.TCP, promise.NodePort},
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, n, server := s.Service(kit.NodePorts), s.Nodes[0], s.Nodes[1].A
			svc.Endpoints(server.Ready())
			ways := svc.NodePortWays(n, s.HostBeyond(n)) // a new host: none has learned the way's size before
			s.Each(ways, kit.Pods(server))
			s.Narrow(n, server.Addr(s.Family), s.Nodes[1].Addr(s.Family))
			s.Large(ways, kit.Way{From: n.B.Client, To: kit.TCP(kit.At(server, s.Family))}, kit.LargeRequest, server.Client)
		},
	}
}
