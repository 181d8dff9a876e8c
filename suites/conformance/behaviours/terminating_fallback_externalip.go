package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-externalip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "With no ready endpoint left, an external IP leads to those that terminate and still serve, of every kind, and to no others, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.AllTerminating, promise.ExternalIPs},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      fallBackToTerminating(atExternalIP),
	}
}
