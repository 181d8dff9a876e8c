package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsFallBackUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-fall-back-udp", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "Datagrams of a pod or a node to a ClusterIP are answered by all ready endpoints where none is hinted for the zone or the node by which they are handled; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.ZoneWithoutEndpoints, promise.RemoteIfNot, promise.Affinity},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Needs:    []kit.Need{kit.NeedZones},
		Run:      hintedByUDP(corev1.ServiceTrafficDistributionPreferSameZone, nowhere),
	}
}
