package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portsComeAndGoAtVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "ports-come-and-go-at-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Ports that a Service gets are served at the address of its load balancer in VIP mode, and those that it has no more are reached there no more, by TCP and UDP; so are ports that get other numbers, protocols or names, and forty of them, until their slice is gone; the numbers of node ports are not served there.",
		Promises: []promise.Promise{promise.MultiPort, promise.Ingress, promise.Synchronized, promise.EachProtocol, promise.PortName, promise.Slices, promise.NodesAddress},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be updated after adding or deleting ports",
		Run:      portsChange(atVIP),
	}
}
