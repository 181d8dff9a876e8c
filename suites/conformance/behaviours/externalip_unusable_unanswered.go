package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPUnusableUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-unusable-unanswered", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Endpoints that are not ready, or end and do not serve, are not reached by an external IP even if no other is left, of whatever kind, under each policy, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.Ready, promise.TerminatingNotServing, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      unusableUnanswered(atExternalIP),
	}
}
