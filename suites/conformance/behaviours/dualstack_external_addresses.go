package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackExternalAddresses() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-external-addresses", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "A Service of both families is served in each at its node ports and at the addresses of its load balancer, by the endpoints of that family, by TCP and UDP, and after a restart of the dataplane's agents, too.",
		Promises: []promise.Promise{promise.Families, promise.AddressType, promise.NodePort, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.Both, kit.DualStack)
			at := map[corev1.IPFamily]*kit.Pod{corev1.IPv4Protocol: s.Nodes[0].A, corev1.IPv6Protocol: s.Nodes[1].A}
			var vips []netip.Addr
			for family, pod := range at {
				s.In(family, func() {
					svc.Slice(kit.SliceOf(family), nil, pod.Ready())
					vips = append(vips, s.FreeAddr())
				})
			}
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vips...)
			served := func() {
				for family, pod := range at {
					s.In(family, func() {
						for _, vip := range vips {
							if vip.Is4() == (family == corev1.IPv4Protocol) {
								s.Each(svc.WaysTo(vip, s.Inside()...), kit.Pods(pod))
							}
						}
						s.Each(svc.NodePortWays(s.Nodes[3], s.Outside(), s.Nodes[3].B.Client, s.Nodes[2].Client), kit.Pods(pod))
					})
				}
			}
			served()
			if s.Met(kit.NeedAgents) {
				s.WithoutAgents(func() {})
				s.ExpectFollowing()
				served()
			}
		},
	}
}
