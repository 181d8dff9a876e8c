package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipUnusableUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-unusable-unanswered", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Endpoints that are not ready, or end and do not serve, are not reached by the address of a load balancer even if no other is left, of whatever kind, under each policy, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.Ready, promise.TerminatingNotServing},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addr := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, addr)
			ways := svc.WaysTo(addr, s.Everyone()...)
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc.Update(policy)
				for _, state := range []func(kit.Endpoint) kit.Endpoint{kit.Endpoint.Unready, kit.Endpoint.Ended} {
					svc.AllKinds(state)
					s.Each(ways, kit.Unreachable())
				}
			}
		},
	}
}
