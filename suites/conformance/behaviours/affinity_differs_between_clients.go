package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityDiffersBetweenClients() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-differs-between-clients", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP each client has an endpoint of its own, by TCP and by UDP: those on one node are not all sent to the same.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Both)
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			for _, at := range []kit.Target{kit.TCP(svc.ClusterIP()), kit.UDP(svc.ClusterIP("dns"))} {
				differ := false
				for _, n := range s.FirstNodes() { // by chance all are the same on every node once in 10^7 runs
					first := s.ExpectOne(n.Client, at, 5, kit.Clients(pods...)...)
					for _, c := range []kit.Client{n.A.Client, n.B.Client} {
						differ = s.ExpectOne(c, at, 5, kit.Clients(pods...)...).Name != first.Name || differ
					}
				}
				if !differ {
					s.Fail("%s: on each of %d nodes all three clients have the same endpoint, of %d", at, kit.Enough, len(pods))
				}
			}
		},
	}
}
