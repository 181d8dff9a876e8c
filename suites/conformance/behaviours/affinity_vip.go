package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-vip", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client to the address of a load balancer in VIP mode go to one endpoint, from inside, and from outside by the node they arrive at.",
		Promises: []promise.Promise{promise.Affinity, promise.Ingress},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Sticky(600), kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Kinds()
			s.EachOne(svc.WaysTo(vip, s.Everyone()...), s.OfKinds()...)
		},
	}
}
