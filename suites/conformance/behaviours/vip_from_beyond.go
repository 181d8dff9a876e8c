package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "What comes from outside to the address of a load balancer in VIP mode, arriving at any node, reaches each ready endpoint and is answered, by TCP and UDP, as long as there is the Service; each has at least half of its even share of what a client sends, unless who spreads goes by the client; what follows on a connection that the client closed by half is answered, and so are, over IPv4, datagrams without a checksum.",
		Promises: []promise.Promise{promise.Ingress, promise.IPModeVIP, promise.ExternalPolicy, promise.ReadyEndpoints, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized, promise.AllEvenly},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Needs:    []kit.Need{kit.NeedNodes},
		Run:      reachAllReady(atVIP, beyond),
	}
}
