package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-vip", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "What arrives at a node for the address of a load balancer in VIP mode is answered by the endpoints that are hinted for the node, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution, promise.Affinity},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureNodeHints},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run:      hintedAt(atVIP, corev1.ServiceTrafficDistributionPreferSameNode, nodal),
	}
}
