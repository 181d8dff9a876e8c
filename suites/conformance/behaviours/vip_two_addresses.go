package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipTwoAddresses() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-two-addresses", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Each address of a load balancer is answered, to pods and nodes, by TCP and UDP, be they two or forty, and one that goes takes no other with it, which loses no connection.",
		Promises: []promise.Promise{promise.IPModeVIP, promise.Ingress},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, one, two := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr(), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, one, two)
			gone, left := svc.WaysTo(one, s.Nodes[1].B.Client, s.Nodes[3].Client), svc.WaysTo(two, s.Nodes[1].B.Client, s.Nodes[3].Client)
			s.Each(append(gone, left...), kit.Pods(s.Nodes[0].A))
			s.Throughout(left[0].From, left[0].To, 200, func() {
				svc.Ingress(corev1.LoadBalancerIPModeVIP, two)
				s.Each(gone, kit.Unreachable())
			}, s.Nodes[0].A.Client)
			s.Each(left, kit.Pods(s.Nodes[0].A))
			var all []netip.Addr
			var ways []kit.Way
			for range 40 {
				all = append(all, s.FreeAddr())
				ways = append(ways, svc.WaysTo(all[len(all)-1], s.Nodes[1].B.Client)...)
			}
			svc.Ingress(corev1.LoadBalancerIPModeVIP, all...)
			s.Each(ways, kit.Pods(s.Nodes[0].A).Times(2))
		},
	}
}
