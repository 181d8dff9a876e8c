package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "With no ready endpoint left, the address of a load balancer in VIP mode leads to those that terminate and still serve, of every kind, and to no others, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.AllTerminating},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addr := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, addr)
			want := svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
			s.Each(svc.WaysTo(addr, s.Everyone()...), want)
		},
	}
}
