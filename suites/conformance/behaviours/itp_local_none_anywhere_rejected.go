package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalNoneAnywhereRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-none-anywhere-rejected", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local connections and datagrams of pods and nodes to the ClusterIP are refused, not dropped, if the Service has no endpoint on any node.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.InternalLocal, kit.Both), s.Nodes
			svc.Endpoints(n[0].A.Ready())
			s.Each(svc.Ways(n[0].B.Client), kit.Pods(n[0].A))
			svc.Endpoints(n[0].A.NotReady())
			s.Each(svc.Ways(n[0].B.Client, n[1].B.Client, n[0].Client), kit.Rejected())
		},
	}
}
