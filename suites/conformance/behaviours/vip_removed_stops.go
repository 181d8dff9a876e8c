package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipRemovedStops() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-removed-stops", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "An address that is taken out of the status is no longer answered by endpoints, to pods and nodes, and the ClusterIP is untouched, by TCP and UDP.",
		Promises: []promise.Promise{promise.Ingress, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			svc.Endpoints(s.Nodes[0].A.Ready())
			inside, want := s.Inside(), kit.Pods(s.Nodes[0].A)
			s.Each(svc.WaysTo(vip, inside...), want)
			svc.Ingress(corev1.LoadBalancerIPModeVIP)
			s.Each(svc.WaysTo(vip, inside...), kit.Unreachable())
			s.Each(svc.Ways(inside...), want)
		},
	}
}
