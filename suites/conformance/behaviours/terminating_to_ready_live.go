package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingToReadyLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-to-ready-live", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "The first ready endpoint takes all new connections and datagrams, to the ClusterIP and node ports, from those that terminate.",
		Promises: []promise.Promise{promise.SomeTerminating, promise.AllTerminating},
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			svc.Endpoints(a.Draining(), b.NotReady())
			s.Each(ways, kit.Pods(a))
			svc.Endpoints(a.Draining(), b.Ready())
			s.Each(ways, kit.Pods(b))
			svc.Endpoints(b.Ready())
			s.Each(ways, kit.Pods(b))
		},
	}
}
