package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipServiceDeletedStops() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-service-deleted-stops", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer is no longer answered by endpoints when its Service is gone, and another Service may have it, by TCP and UDP.",
		Promises: []promise.Promise{promise.Ingress, promise.Synchronized},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			svc.Endpoints(s.Nodes[0].A.Ready())
			ways := svc.WaysTo(vip, s.Nodes[1].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client)
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Delete()
			s.Each(ways, kit.Unreachable())
			other := s.Service(kit.LoadBalanced, kit.Both)
			other.Endpoints(s.Nodes[2].A.Ready())
			other.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Each(ways, kit.Pods(s.Nodes[2].A))
		},
	}
}
