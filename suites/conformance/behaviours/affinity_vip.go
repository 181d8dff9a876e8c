package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-vip", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client to the address of a load balancer in VIP mode go to one endpoint, from inside, and from outside by the node they arrive at.",
		Promises: []promise.Promise{promise.Affinity, promise.Ingress},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      stick(atVIP),
	}
}
