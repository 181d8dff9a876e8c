package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-udp", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Datagrams to a ClusterIP are answered by the endpoints that are hinted for the client's zone; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution, promise.Affinity},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones},
		Run:      hintedByUDP(corev1.ServiceTrafficDistributionPreferSameZone, zonal),
	}
}
