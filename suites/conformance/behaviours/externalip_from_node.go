package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-node", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What a node sends to an external IP of a Service reaches each ready endpoint, by TCP and UDP, from every node, as long as there is the Service; each has at least half of its even share of what a client sends, unless who spreads goes by the client; what follows on a connection that the client closed by half is answered, and so are, over IPv4, datagrams without a checksum.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run:      reachAllReady(atExternalIP, (*kit.Spec).NodeClients),
	}
}
