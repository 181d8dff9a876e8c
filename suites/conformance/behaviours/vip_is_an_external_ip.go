package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipIsAnExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-is-an-external-ip", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "An address may be a load balancer's of one Service and an external IP of another with another port, or both of one Service, by TCP and UDP; taken away as one of the two it stays the other.",
		Promises: []promise.Promise{promise.IPModeVIP, promise.Ingress, promise.ExternalIPs, promise.Synchronized},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			n, addr := s.Nodes, s.FreeAddr()
			one, two := s.Service(kit.LoadBalanced, kit.Both), s.Service(kit.ExternalIPs(addr), kit.Both, func(o *corev1.Service) {
				o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 81, 54
			})
			one.Endpoints(n[0].A.Ready())
			two.Endpoints(n[1].A.Ready())
			one.Ingress(corev1.LoadBalancerIPModeVIP, addr)
			clients := []kit.Client{n[2].B.Client, n[3].Client}
			s.Each(one.WaysTo(addr, clients...), kit.Pods(n[0].A))
			s.Each(two.WaysTo(addr, clients...), kit.Pods(n[1].A))
			one.Update(kit.ExternalIPs(addr))
			s.Each(one.WaysTo(addr, clients...), kit.Pods(n[0].A))
			one.Ingress(corev1.LoadBalancerIPModeVIP)
			s.Each(one.WaysTo(addr, clients...), kit.Pods(n[0].A))
			s.Each(two.WaysTo(addr, clients...), kit.Pods(n[1].A))
			one.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = nil })
			s.Each(one.WaysTo(addr, clients...), kit.Unreachable())
			s.Each(two.WaysTo(addr, clients...), kit.Pods(n[1].A))
		},
	}
}
