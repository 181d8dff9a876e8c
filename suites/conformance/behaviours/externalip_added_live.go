package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPAddedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-added-live", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "External IPs that a Service gets while it lives are each served, several at once, be they twenty, and one that goes takes no other with it, nor does one of a family that the Service has not, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.Both), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			clients := []kit.Client{s.Nodes[0].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client}
			s.Each(svc.Ways(clients...), kit.Pods(pod))
			one, two, three := s.FreeAddr(), s.FreeAddr(), s.FreeAddr()
			svc.Update(kit.ExternalIPs(one))
			s.Each(svc.WaysTo(one, clients...), kit.Pods(pod))
			svc.Update(kit.ExternalIPs(two, three))
			gone := svc.WaysTo(one, clients...)
			left := append(svc.WaysTo(two, clients...), svc.WaysTo(three, clients...)...)
			s.Each(append(gone, left...), kit.Pods(pod))
			svc.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = o.Spec.ExternalIPs[1:] })
			s.Each(gone, kit.Unreachable())
			s.Each(left, kit.Pods(pod))
			var many []netip.Addr
			for range 20 {
				many = append(many, s.FreeAddr())
			}
			foreign := map[corev1.IPFamily]string{corev1.IPv4Protocol: "2001:db8:53::9", corev1.IPv6Protocol: "203.0.113.209"}[s.Family]
			svc.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = append([]string{foreign}, o.Spec.ExternalIPs...) })
			svc.Update(kit.ExternalIPs(many...))
			s.Each(append(waysToAll(svc, many, clients[0]), left...), kit.Pods(pod).Times(4))
		},
	}
}
