package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipReadyHidesTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-ready-hides-terminating", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "While a ready endpoint is left, those that terminate or are not ready get nothing by the address of a load balancer, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.SomeTerminating, promise.Ready, promise.Ingress},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      hideTerminating(atVIP),
	}
}
