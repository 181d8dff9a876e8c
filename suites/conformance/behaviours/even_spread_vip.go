package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-vip", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "Connections and datagrams of each client to the address of a load balancer in VIP mode are spread evenly over endpoints of every kind, over 72, and under externalTrafficPolicy=Local over those of a node.",
		Promises: []promise.Promise{promise.AllEvenly, promise.ExternalLocal},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSpread},
		Needs:    []kit.Need{kit.NeedNodes},
		Long:     true,
		Run:      spreadEvenly(atVIP, 9700),
	}
}
