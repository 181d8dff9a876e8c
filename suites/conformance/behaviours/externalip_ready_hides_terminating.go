package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPReadyHidesTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-ready-hides-terminating", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "While a ready endpoint is left, those that terminate or are not ready get nothing by an external IP, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.SomeTerminating, promise.Ready, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      hideTerminating(atExternalIP),
	}
}
