package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalTerminatingUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-terminating-used", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local a node whose endpoints all terminate and still serve goes on with them at the address of a load balancer, of every kind, with the client's address, by TCP and UDP, whether others are ready elsewhere or not, and their connections stay whole; a node without any answers nobody while none is ready.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.DrainLocal, promise.ExternalLocal, promise.ConnectionsEnd, promise.ExternalLocalDrops},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      drainLocally(atVIP),
	}
}
