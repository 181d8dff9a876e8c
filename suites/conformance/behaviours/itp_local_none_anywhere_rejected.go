package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalNoneAnywhereRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-none-anywhere-rejected", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local connections to the ClusterIP are refused, not dropped, if the Service has no endpoint on any node.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal)
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[0].A))
			svc.Endpoints(s.Nodes[0].A.NotReady())
			s.Expect(s.Nodes[0].B.Client, at, kit.Rejected())
			s.Expect(s.Nodes[1].B.Client, at, kit.Rejected())
		},
	}
}
