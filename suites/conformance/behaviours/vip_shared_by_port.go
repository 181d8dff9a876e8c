package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipSharedByPort() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-shared-by-port", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Services may share the address of a load balancer, each with its own port or protocol, policy and session affinity, and keep it when one of them gives it up, and when one is deleted.",
		Promises: []promise.Promise{promise.IPModeVIP, promise.Ingress, promise.ExternalLocal, promise.ReadyEndpoints, promise.Affinity},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			n, vip := s.Nodes, s.FreeAddr()
			one, two := s.Service(kit.LoadBalanced), s.Service(kit.LoadBalanced, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 81)))
			three := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 80)))
			var of [][]kit.Way
			for i, svc := range []*kit.Service{one, two, three} {
				svc.Endpoints(n[i].A.Ready())
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				of = append(of, svc.WaysTo(vip, n[2].B.Client, n[3].Client))
			}
			for i, ways := range of {
				s.Each(ways, kit.Pods(n[i].A))
			}
			two.Update(kit.ExternalLocal)
			three.Update(kit.Sticky(600))
			three.Endpoints(n[0].A.Ready(), n[2].A.Ready())
			one.Endpoints(n[0].A.Ready(), n[2].A.Ready())
			s.Each(of[0], kit.Pods(n[0].A, n[2].A))
			s.EachOne(of[2], n[0].A.Client, n[2].A.Client)
			if s.Met(kit.NeedNodes) {
				host := s.HostBeyond(n[3])
				s.Each(one.WaysTo(vip, host), kit.Pods(n[0].A, n[2].A))
				s.Each(two.WaysTo(vip, host), kit.Unreachable())
			}
			three.Update(kit.NotSticky)
			three.Endpoints(n[2].A.Ready())
			one.Ingress(corev1.LoadBalancerIPModeVIP)
			s.Each(of[0], kit.Unreachable())
			s.Each(of[1], kit.Pods(n[1].A))
			s.Each(of[2], kit.Pods(n[2].A))
			two.Delete()
			s.Each(of[1], kit.Unreachable())
			s.Each(of[2], kit.Pods(n[2].A))
		},
	}
}
