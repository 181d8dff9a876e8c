package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-unanswered", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What pods and nodes send to an externalIP is not answered while the Service has no endpoint, under each policy, by TCP and UDP: it may be refused or dropped.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run:      emptied(atExternalIP, kit.Unreachable()),
	}
}
