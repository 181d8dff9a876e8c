package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingToReadyLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-to-ready-live", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "The first ready endpoint takes all new connections from those that terminate.",
		Promises: []promise.Promise{promise.SomeTerminating, promise.AllTerminating},
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			a, b, at := s.Nodes[0].A, s.Nodes[1].A, kit.TCP(svc.ClusterIP())
			svc.Endpoints(a.Draining(), b.NotReady())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(a))
			svc.Endpoints(a.Draining(), b.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(b))
			svc.Endpoints(b.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(b))
		},
	}
}
