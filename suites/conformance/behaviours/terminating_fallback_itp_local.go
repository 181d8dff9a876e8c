package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackITPLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-itp-local", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Under internalTrafficPolicy=Local a node without ready endpoints of its own uses its own that terminate and still serve, and no others.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.AllTerminating},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to local terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Local",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal)
			svc.Endpoints(s.Nodes[0].A.Draining(), s.Nodes[1].A.Draining(), s.Nodes[1].B.Ready())
			at := kit.TCP(svc.ClusterIP())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[0].Client, at, kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[1].A.Client, at, kit.Pods(s.Nodes[1].B))
		},
	}
}
