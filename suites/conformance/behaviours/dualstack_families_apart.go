package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackFamiliesApart() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-families-apart", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "Each address of a Service of both families leads to the endpoints of its family alone, those that are there now, be they the only ones or end while those of the other are ready, and is not answered while that has none, or when the Service is gone; and in each an endpoint reaches itself.",
		Promises: []promise.Promise{promise.Families, promise.AddressType, promise.Hairpin},
		Source:   []string{"KEP-563"},
		Upstream: "[sig-network] [Feature:IPv6DualStack] should create service with ipv4,v6 cluster ip",
		Needs:    []kit.Need{kit.NeedDual},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.DualStack, kit.Both), s.Nodes
			ways := map[corev1.IPFamily][]kit.Way{}
			have := func(eps map[corev1.IPFamily][]kit.Endpoint) {
				kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, eps[f]...) })
			}
			const four, six = corev1.IPv4Protocol, corev1.IPv6Protocol
			have(map[corev1.IPFamily][]kit.Endpoint{four: {n[0].A.Ready()}, six: {n[1].A.Ready()}})
			reach := map[corev1.IPFamily]func(*kit.Pod){}
			kit.InBoth(s, func(f corev1.IPFamily) {
				ways[f] = svc.WaysTo(svc.ClusterIPOf(f).Addr(), n[0].B.Client, n[3].Client)
				s.Each(ways[f], kit.Pods(map[corev1.IPFamily]*kit.Pod{four: n[0].A, six: n[1].A}[f]))
				reach[f] = flow(s, []kit.Way{ways[f][1]}) // by UDP
			})
			have(map[corev1.IPFamily][]kit.Endpoint{four: {n[1].B.Ready()}, six: {n[2].A.Ready()}})
			kit.InBoth(s, func(f corev1.IPFamily) { reach[f](map[corev1.IPFamily]*kit.Pod{four: n[1].B, six: n[2].A}[f]) })
			for _, only := range []corev1.IPFamily{four, six} {
				have(map[corev1.IPFamily][]kit.Endpoint{only: {n[2].B.Ready()}})
				kit.InBoth(s, func(f corev1.IPFamily) {
					s.Each(ways[f], map[bool]kit.Want{true: kit.Pods(n[2].B), false: kit.Unreachable()}[f == only])
				})
			}
			if s.Has(kit.TerminatingFallback) {
				for _, ends := range []corev1.IPFamily{four, six} {
					other := map[corev1.IPFamily]corev1.IPFamily{four: six, six: four}[ends]
					have(map[corev1.IPFamily][]kit.Endpoint{ends: {n[0].B.Draining()}, other: {n[1].A.Ready()}})
					kit.InBoth(s, func(f corev1.IPFamily) {
						s.Each(ways[f], kit.Pods(map[bool]*kit.Pod{true: n[0].B, false: n[1].A}[f == ends]))
					})
				}
			}
			have(map[corev1.IPFamily][]kit.Endpoint{four: {n[0].A.Ready()}, six: {n[0].A.Ready()}})
			kit.InBoth(s, func(f corev1.IPFamily) {
				s.Each(append(ways[f], svc.WaysTo(svc.ClusterIPOf(f).Addr(), n[0].A.Client)...), kit.Pods(n[0].A))
			})
			svc.Delete()
			kit.InBoth(s, func(f corev1.IPFamily) { s.Each(ways[f], kit.Unreachable()) })
		},
	}
}
