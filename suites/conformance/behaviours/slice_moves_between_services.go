package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceMovesBetweenServices() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-moves-between-services", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "A slice that gets the label of another Service is that one's, and no more the first one's.",
		Promises: []promise.Promise{promise.Slices, promise.Synchronized},
		// SHOULD: no document says that the label of a slice may change, and kube-proxy keeps such a
		// slice for its first Service too.
		Run: func(s *kit.Spec) {
			from, to, a, b := s.Service(kit.Both), s.Service(kit.Both), s.Nodes[0].A, s.Nodes[1].A
			from.Endpoints(a.Ready())
			from.Slice("moves", nil, b.Ready())
			s.Each(from.Ways(s.PodClients()...), kit.Pods(a, b))
			s.Each(to.Ways(s.PodClients()...), kit.Unreachable())
			to.Adopt(from, "moves")
			s.Each(from.Ways(s.PodClients()...), kit.Pods(a))
			s.Each(to.Ways(s.PodClients()...), kit.Pods(b))
		},
	}
}
