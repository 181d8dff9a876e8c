package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsRejectedFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-rejected-from-beyond", Level: kit.Should, Profile: kit.ProfileExternalIPs,
		Says:     "What comes from outside to an externalIP is rejected, not dropped, while the Service has no endpoint, at any node, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny, promise.RefusedWithoutEndpoints},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      emptiedFromBeyond(atExternalIP, kit.Rejected()),
	}
}
