package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-externalip", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "What arrives at a node for an externalIP is answered by the endpoints that are hinted for the node, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution, promise.Affinity},
		Features: []kit.Feature{kit.FeatureNodeHints, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run:      hintedAt(atExternalIP, corev1.ServiceTrafficDistributionPreferSameNode, nodal),
	}
}
