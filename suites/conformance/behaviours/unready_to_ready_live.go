package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func unreadyToReadyLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "unready-to-ready-live", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint that becomes ready gets connections, and none any more once it is not.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should create endpoints for unready pods",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			a, b := s.Nodes[0].A, s.Nodes[1].A
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(a.Ready(), b.NotReady())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(a))
			svc.Endpoints(a.Ready(), b.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(a, b))
			svc.Endpoints(a.NotReady(), b.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(b))
		},
	}
}
