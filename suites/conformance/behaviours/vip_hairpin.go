package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-hairpin", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A pod reaches itself by the address of a load balancer in VIP mode, the only endpoint or one of several, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			self, other := s.Nodes[0].A, s.Nodes[1].A
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc, vip := s.Service(kit.LoadBalanced, policy, kit.Both), s.FreeAddr()
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				svc.Endpoints(self.Ready())
				s.Each(svc.WaysTo(vip, self.Client), kit.Pods(self))
				svc.Endpoints(self.Ready(), other.Ready())
				s.Each(svc.WaysTo(vip, self.Client), kit.Pods(self, other))
			}
		},
	}
}
