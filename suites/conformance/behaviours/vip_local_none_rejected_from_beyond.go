package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalNoneRejectedFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-none-rejected-from-beyond", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "What comes from outside to the address of a load balancer is rejected, not dropped, while the Service has no endpoint on any node, at any node, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny, promise.RefusedWithoutEndpoints},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      emptiedFromBeyond(atVIP, kit.Rejected()),
	}
}
