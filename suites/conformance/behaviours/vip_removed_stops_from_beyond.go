package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipRemovedStopsFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-removed-stops-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "An address that is taken out of the status is no longer answered by endpoints to hosts outside either, by TCP and UDP.",
		Promises: []promise.Promise{promise.Ingress, promise.Synchronized},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			svc.Endpoints(s.Nodes[0].A.Ready())
			ways := svc.WaysTo(vip, beyond(s)...)
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Ingress(corev1.LoadBalancerIPModeVIP)
			s.Each(ways, kit.Unreachable())
		},
	}
}
