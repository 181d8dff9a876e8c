package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackCluster() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-cluster", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "With no ready endpoint left, a ClusterIP leads to those that terminate and still serve, and to no others.",
		Promises: []promise.Promise{promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Endpoints(s.Nodes[0].A.Draining(), s.Nodes[1].A.Draining(), s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
			want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), want)
			s.Expect(s.Nodes[2].A.Client, kit.TCP(svc.ClusterIP()), want)
			s.Expect(s.Nodes[1].Client, kit.TCP(svc.ClusterIP()), want)
		},
	}
}
