package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalEndpointMovesLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-endpoint-moves-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port begins to answer where an endpoint comes to, and no more where the last one left, again and again, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.Synchronized},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			for _, on := range [][2]*kit.Node{{s.Nodes[0], s.Nodes[1]}, {s.Nodes[1], s.Nodes[0]}, {s.Nodes[0], s.Nodes[1]}} {
				here, there := on[0], on[1]
				svc.Endpoints(here.A.Ready())
				s.Each(svc.NodePortWays(here, s.Outside()), kit.Pods(here.A))
				s.Each(svc.Ways(there.B.Client), kit.Pods(here.A)) // it has heard of it
				s.Each(svc.NodePortWays(there, s.Outside()), kit.Unreachable())
			}
		},
	}
}
