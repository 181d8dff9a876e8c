package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-node", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What a node sends to an external IP of a Service reaches each ready endpoint, by no less than half and no more than one and a half of its even share, by TCP and UDP, from every node, as long as there is the Service.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run:      reachAllReady(atExternalIP, (*kit.Spec).NodeClients),
	}
}
