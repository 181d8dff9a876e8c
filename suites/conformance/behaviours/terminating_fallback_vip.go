package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "With no ready endpoint left, the address of a load balancer in VIP mode leads to those that terminate and still serve, of every kind, and to no others, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.AllTerminating, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      fallBackToTerminating(atVIP),
	}
}
