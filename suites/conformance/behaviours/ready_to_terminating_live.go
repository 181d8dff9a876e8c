package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func readyToTerminatingLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "ready-to-terminating-live", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "As endpoints begin to terminate one by one, connections and datagrams, to the ClusterIP and node ports, go to those that are ready and, after the last of them, to all that still serve.",
		Promises: []promise.Promise{promise.AllTerminating, promise.SomeTerminating},
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			svc.Endpoints(a.Ready(), b.Ready())
			s.Each(ways, kit.Pods(a, b))
			svc.Endpoints(a.Draining(), b.Ready())
			s.Each(ways, kit.Pods(b))
			svc.Endpoints(a.Draining(), b.Draining())
			s.Each(ways, kit.Pods(a, b))
			svc.Endpoints(a.Ending(), b.Draining())
			s.Each(ways, kit.Pods(b))
		},
	}
}
