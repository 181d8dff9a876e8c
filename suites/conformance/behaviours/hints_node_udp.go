package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-udp", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Datagrams to a ClusterIP are answered by the endpoints that are hinted for the client's node; with session affinity each client by one of these.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution, promise.Affinity},
		Features: []kit.Feature{kit.FeatureNodeHints},
		Needs:    []kit.Need{kit.NeedZones},
		Run:      hintedByUDP(corev1.ServiceTrafficDistributionPreferSameNode, nodal),
	}
}
