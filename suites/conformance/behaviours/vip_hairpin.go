package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-hairpin", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A pod reaches itself by the address of a load balancer in VIP mode, the only endpoint, one of several or one that comes back, at any target port, and while it terminates where such are used, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.AnyTargetPort, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			self, other := s.Nodes[0].A, s.Nodes[1].A
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc, vip := atVIP(s, policy)
				meetsItself(s, svc, svc.WaysTo(vip, self.Client), 25_400, self, other)
			}
		},
	}
}
