package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceDuplicateOutlivesOne() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-duplicate-outlives-one", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint that is in two slices is one as long as it is in either: when one of them is deleted, or has it no more, it is reached on, by TCP and UDP, and no connection or datagram is lost while it moves from one to the other.",
		Promises: []promise.Promise{promise.UniqueEndpoints, promise.Slices, promise.ClientsUnaware},
		Source:   []string{"KEP-752"},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.Both), s.Nodes
			ways, twice := svc.Ways(s.PodClients()...), n[0].A
			svc.Slice("a", nil, twice.Ready(), n[1].A.Ready())
			both := func() {
				svc.Slice("b", nil, twice.Ready(), n[2].A.Ready())
				s.Each(ways, kit.Pods(twice, n[1].A, n[2].A))
			}
			both()
			svc.DeleteSlice("b")
			s.Each(ways, kit.Pods(twice, n[1].A))
			both()
			svc.Slice("b", nil, n[3].A.Ready())
			s.Each(ways, kit.Pods(twice, n[1].A, n[3].A))
			both()
			svc.DeleteSlice("a")
			s.Each(ways, kit.Pods(twice, n[2].A))
			moves := s.Service(kit.Both)
			moves.Slice("a", nil, twice.Ready())
			its := moves.Ways(n[0].B.Client, n[3].B.Client)
			s.Each(its, kit.Pods(twice))
			stay, reach := stand(s, ofPort(its, 0)), flow(s, ofPort(its, 1))
			reach(twice)
			s.UnderLoad(its, func() {
				moves.Slice("b", nil, twice.Ready())
				heard(s, n[0].B.Client, n[3].B.Client)
				moves.DeleteSlice("a")
				heard(s, n[0].B.Client, n[3].B.Client)
			}, twice.Client)
			stay()
			reach(twice)
		},
	}
}
