package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipNoEndpointsUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-no-endpoints-unanswered", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "What pods and nodes send to the address of a load balancer is not answered while the Service has no endpoint, under each policy, by TCP and UDP: it may be refused or dropped.",
		Promises: []promise.Promise{promise.Ingress, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run:      emptied(atVIP, kit.Unreachable()),
	}
}
