package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-externalip", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "What arrives at a node for an externalIP is answered by the endpoints that are hinted for the zone of that node, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution, promise.Affinity},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run:      hintedAt(atExternalIP, corev1.ServiceTrafficDistributionPreferSameZone, zonal),
	}
}
