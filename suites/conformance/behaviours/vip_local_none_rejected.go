package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalNoneRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-none-rejected", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "What pods and nodes send to the address of a load balancer is rejected, not dropped, while the Service has no endpoint on any node, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny, promise.RefusedWithoutEndpoints},
		Writes:   kit.SinceClass,
		Run:      emptied(atVIP, kit.Rejected()),
	}
}
