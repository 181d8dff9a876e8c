package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalTerminatingUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-terminating-used", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Under externalTrafficPolicy=Local a node whose endpoints all terminate and still serve goes on with them at an external IP, of every kind, by TCP and UDP, whether others are ready elsewhere or not, and their connections stay whole; a node without any answers nobody while none is ready.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.ExternalLocal, promise.ConnectionsEnd, promise.ExternalLocalDrops},
		Features: []kit.Feature{kit.TerminatingFallback, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      drainLocally(atExternalIP),
	}
}
