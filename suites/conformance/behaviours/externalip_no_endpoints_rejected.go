package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-rejected", Level: kit.Should, Profile: kit.ProfileExternalIPs,
		Says:     "What pods and nodes send to an externalIP is rejected, not dropped, while the Service has no endpoint, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny, promise.RefusedWithoutEndpoints},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run:      emptied(atExternalIP, kit.Rejected()),
	}
}
