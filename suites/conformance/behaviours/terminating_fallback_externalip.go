package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-externalip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "With no ready endpoint left, an external IP leads to those that terminate and still serve, of every kind, and to no others, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.ExternalIPs(addr), kit.Both)
			want := svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
			s.Each(svc.WaysTo(addr, s.Everyone()...), want)
		},
	}
}
