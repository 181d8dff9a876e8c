package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-externalip", Level: kit.Should, Profile: kit.ProfileExternalIPs,
		Says:     "Connections and datagrams of each client to an externalIP are spread evenly over endpoints of every kind.",
		Promises: []promise.Promise{promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureSpread, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      spreadEvenly(atExternalIP),
	}
}
