package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-nodeport", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "What comes to a node port is answered by the endpoints that are hinted for the node, by TCP and UDP; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution, promise.Affinity},
		Features: []kit.Feature{kit.FeatureNodeHints},
		Needs:    []kit.Need{kit.NeedOutside, kit.NeedZones},
		Run:      hintedAtNodePort(corev1.ServiceTrafficDistributionPreferSameNode, nodal),
	}
}
