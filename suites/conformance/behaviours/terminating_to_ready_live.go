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
			n := s.Nodes
			ways := append(svc.Ways(n[0].B.Client, n[3].Client), svc.NodePortWays(n[3], s.Outside(), n[3].B.Client, n[3].Client, n[0].B.Client)...)
			ways = append(ways, svc.NodePortWays(n[0], n[3].B.Client)...)
			svc.Endpoints(a.Draining(), b.NotReady())
			s.Each(ways, kit.Pods(a))
			svc.Endpoints(a.Draining(), b.Ready())
			s.Each(ways, kit.Pods(b))
			svc.Endpoints(b.Ready())
			s.Each(ways, kit.Pods(b))
		},
	}
}
