package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityDiffersBetweenClients() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-differs-between-clients", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP each client has an endpoint of its own: those on one node are not all sent to the same.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			at := kit.TCP(svc.ClusterIP())
			differ := false
			for _, n := range s.FirstNodes() { // by chance all are the same on every node once in 10^7 runs
				first := s.ExpectOne(n.Client, at, 5, kit.Clients(pods...)...)
				for _, c := range []kit.Client{n.A.Client, n.B.Client} {
					differ = s.ExpectOne(c, at, 5, kit.Clients(pods...)...).Name != first.Name || differ
				}
			}
			if !differ {
				s.Fail("on each of %d nodes all three clients have the same endpoint, of %d", kit.Enough, len(pods))
			}
		},
	}
}
