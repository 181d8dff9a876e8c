package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-nodeport", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "With no ready endpoint left, a node port leads to those that terminate and still serve, of every kind, and to no others, from any node, by TCP and UDP.",
		Promises: []promise.Promise{promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to terminating endpoints when there are no ready endpoints with externallTrafficPolicy=Cluster",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			want := svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
			s.Each(svc.NodePortWaysOfAll(), want)
		},
	}
}
