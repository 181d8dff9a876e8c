package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPHandedOn() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-handed-on", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "An external IP that one Service gives up is answered by the endpoints of the one that gets it, by TCP and UDP, the one that this had before is not, and so when it gets it back.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: handedOn(atExternalIP, func(svc *kit.Service, addrs ...netip.Addr) {
			svc.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = nil; kit.ExternalIPs(addrs...)(o) })
		}),
	}
}
