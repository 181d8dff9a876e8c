package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-pod", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What a pod sends to an external IP of a Service reaches each ready endpoint, by TCP and UDP, from every node, as long as there is the Service; each has at least half of its even share of what a client sends, unless who spreads goes by the client; what follows on a connection that the client closed by half is answered, and so are, over IPv4, datagrams without a checksum.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Upstream: "[sig-network] Services should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node",
		Run:      reachAllReady(atExternalIP, (*kit.Spec).PodClients),
	}
}
