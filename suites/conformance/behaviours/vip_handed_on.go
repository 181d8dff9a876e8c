package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipHandedOn() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-handed-on", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer that one Service gives up is answered by the endpoints of the one that gets it, by TCP and UDP, the one that this had before is not, and so when it gets it back.",
		Promises: []promise.Promise{promise.Ingress, promise.IPModeVIP, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run: handedOn(atVIP, func(svc *kit.Service, addrs ...netip.Addr) {
			svc.Ingress(corev1.LoadBalancerIPModeVIP, addrs...)
		}),
	}
}
