package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsFallBackExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-fall-back-externalip", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "What comes to an external IP is answered by all ready endpoints where none is hinted for the zone or the node by which it is handled, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.ZoneWithoutEndpoints, promise.RemoteIfNot, promise.ExternalIPs, promise.Affinity},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run:      hintedAt(atExternalIP, corev1.ServiceTrafficDistributionPreferSameZone, nowhere),
	}
}
