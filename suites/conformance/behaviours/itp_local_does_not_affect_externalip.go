package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalDoesNotAffectExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-does-not-affect-externalip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "internalTrafficPolicy=Local does not apply to an external IP: it leads pods, nodes and hosts outside to endpoints of all nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.InternalPolicy, promise.InternalIndependent, promise.ExternalPolicy},
		Writes:   kit.SinceInternalPolicy,
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      withInternalLocal(atExternalIP),
	}
}
