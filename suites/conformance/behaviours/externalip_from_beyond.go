package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-beyond", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What comes from outside to an external IP, arriving at any node, reaches each ready endpoint and is answered, by TCP and UDP, as long as there is the Service; each has at least half of its even share of what a client sends, unless who spreads goes by the client; what follows on a connection that the client closed by half is answered, and so are, over IPv4, datagrams without a checksum.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted, promise.ReadyEndpoints, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      reachAllReady(atExternalIP, beyond),
	}
}
