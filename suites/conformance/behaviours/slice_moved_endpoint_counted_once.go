package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceMovedEndpointCountedOnce() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-moved-endpoint-counted-once", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "An endpoint that is in two slices, as while it moves between them, gets no larger share of the connections.",
		Promises: []promise.Promise{promise.UniqueEndpoints},
		Run: func(s *kit.Spec) {
			svc, twice, once := s.Service(), s.Nodes[0].A, s.Nodes[1].A
			svc.Slice("a", nil, twice.Ready(), once.Ready())
			svc.Slice("b", nil, twice.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(twice, once))
			// Of 1000 a fair coin gives 500 with a standard deviation of 16; 580 is five of them
			// away, and from the 667 of an endpoint counted twice six.
			share := s.Spread(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 1000, twice.Client, once.Client)
			s.Say("of 1000 connections the endpoint in two slices got %d", share[twice.Name])
			if share[twice.Name] > 580 {
				s.Fail("of 1000 connections the endpoint in two slices got %d, want at most 580", share[twice.Name])
			}
		},
	}
}
