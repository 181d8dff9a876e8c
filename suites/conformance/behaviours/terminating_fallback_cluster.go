package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackCluster() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-cluster", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "With no ready endpoint left, a ClusterIP leads to those that terminate and still serve, of every kind, and to no others, neither such as do not terminate and are not ready, by TCP and UDP.",
		Promises: []promise.Promise{promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Both)
			unready := s.Nodes[3].A.Ready().With(new(false), new(true), new(false))
			want := svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending(), unready)
			s.Each(svc.Ways(s.Inside()...), want)
		},
	}
}
