package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-externalip", Level: kit.Should, Profile: kit.ProfileExternalIPs,
		Says:     "Connections and datagrams of each client to an externalIP are spread evenly over endpoints of every kind, over 72, and under externalTrafficPolicy=Local over those of a node.",
		Promises: []promise.Promise{promise.AllEvenly, promise.ExternalLocal},
		Features: []kit.Feature{kit.FeatureSpread, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Long:     true,
		Run:      spreadEvenly(atExternalIP, 9720),
	}
}
