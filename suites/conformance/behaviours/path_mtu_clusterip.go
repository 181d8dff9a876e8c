package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-clusterip", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Requests of 32 KiB of pods and nodes pass whole through a ClusterIP where the path to the endpoint takes smaller packets than the client's link.",
		Promises: []promise.Promise{promise.TCP, promise.Transported},
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, n, server := s.Service(), s.Nodes[0], s.Nodes[1].A
			svc.Endpoints(server.Ready())
			ways := svc.Ways(n.A.Client, n.Client)
			s.Each(ways, kit.Pods(server))
			s.Narrow(n, server.Addr(s.Family), s.Nodes[1].Addr(s.Family))
			s.Large(ways, kit.Way{From: n.B.Client, To: kit.TCP(kit.At(server, s.Family))}, kit.LargeRequest, server.Client)
		},
	}
}
