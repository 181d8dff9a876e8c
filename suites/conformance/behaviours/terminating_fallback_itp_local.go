package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackITPLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-itp-local", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Under internalTrafficPolicy=Local a node without ready endpoints of its own uses its own that terminate and still serve, of every kind, and no others, by TCP and UDP; a node that has none uses none of other nodes.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.AllTerminating, promise.InternalLocalOnly},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to local terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Local",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.InternalLocal, kit.Both)
			svc.Ending(s.Nodes[3].A.Draining(), s.Nodes[3].B.Ready())
			for i, server := range s.OfKinds() {
				s.Each(svc.Ways(s.Nodes[i].B.Client, s.Nodes[i].Client), kit.Only(server))
			}
			s.Each(svc.Ways(s.Nodes[3].A.Client), kit.Pods(s.Nodes[3].B))
			svc = s.Service(kit.InternalLocal, kit.Both)
			svc.Endpoints(s.Nodes[1].A.Draining())
			s.Each(svc.Ways(s.Nodes[1].B.Client), kit.Pods(s.Nodes[1].A))
			s.Each(svc.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client), kit.Unreachable())
		},
	}
}
