package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func unreadyToReadyLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "unready-to-ready-live", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint that becomes ready gets connections and datagrams, and none any more once it is not, at the ClusterIP and at node ports.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should create endpoints for unready pods",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			svc.Endpoints(a.Ready(), b.NotReady())
			s.Each(ways, kit.Pods(a))
			svc.Endpoints(a.Ready(), b.Ready())
			s.Each(ways, kit.Pods(a, b))
			svc.Endpoints(a.NotReady(), b.Ready())
			s.Each(ways, kit.Pods(b))
		},
	}
}
