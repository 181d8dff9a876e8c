package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func halfCloseKept() kit.Behaviour {
	return kit.Behaviour{
		ID: "half-close-kept", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A connection of which the client has closed its direction still carries the answer, and then the end of what the server says.",
		Promises: []promise.Promise{promise.TCP, promise.EveryNode},
		Source:   []string{"RFC 9293, section 3.6"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			servers := []kit.Client{s.Nodes[0].A.Client, s.Nodes[1].A.Client}
			ways := append(svc.Ways(s.Nodes[0].B.Client), svc.NodePortWays(s.Nodes[0], s.Outside())...)
			s.Each(ways, kit.Only(servers...))
			closeHalf(s, ways, servers...)
		},
	}
}
