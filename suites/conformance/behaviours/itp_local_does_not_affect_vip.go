package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalDoesNotAffectVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-does-not-affect-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "internalTrafficPolicy=Local does not apply to the address of a load balancer in VIP mode: it leads pods, nodes and hosts outside to endpoints of all nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.InternalPolicy, promise.InternalIndependent, promise.ExternalPolicy},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      withInternalLocal(atVIP),
	}
}
