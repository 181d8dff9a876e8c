package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A process in the network of a node that dials the address of a load balancer in VIP mode is answered by each ready endpoint, by TCP and UDP, from every node, as long as there is the Service; each has at least half of its even share of what a client sends, unless who spreads goes by the client; what follows on a connection that the client closed by half is answered, and so are, over IPv4, datagrams without a checksum.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.Ingress, promise.IPModeVIP, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run:      reachAllReady(atVIP, (*kit.Spec).NodeClients),
	}
}
