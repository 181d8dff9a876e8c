package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsFallBackVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-fall-back-vip", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "What comes to the address of a load balancer in VIP mode is answered by all ready endpoints where none is hinted for the zone or the node by which it is handled, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.ZoneWithoutEndpoints, promise.RemoteIfNot, promise.Ingress, promise.Affinity},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-2433", "KEP-4444"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run:      hintedAt(atVIP, corev1.ServiceTrafficDistributionPreferSameZone, nowhere),
	}
}
