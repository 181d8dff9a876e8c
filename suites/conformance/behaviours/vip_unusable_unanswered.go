package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipUnusableUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-unusable-unanswered", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Endpoints that are not ready, or end and do not serve, are not reached by the address of a load balancer even if no other is left, of whatever kind, under each policy, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.Ready, promise.TerminatingNotServing, promise.Ingress},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      unusableUnanswered(atVIP),
	}
}
