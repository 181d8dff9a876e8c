package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-externalip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client to an external IP go to one endpoint, from inside, and from outside by the node they arrive at.",
		Promises: []promise.Promise{promise.Affinity, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      stick(atExternalIP),
	}
}
