package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackSourceRanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-source-ranges", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "loadBalancerSourceRanges of both families hold for a Service of both in each, by TCP and UDP.",
		Promises: []promise.Promise{promise.Families, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedDual, kit.NeedNodes},
		Run: func(s *kit.Spec) {
			n, ranges, vips := s.Nodes[0], []string{}, []netip.Addr{}
			in, out := map[corev1.IPFamily]kit.Client{}, map[corev1.IPFamily]kit.Client{}
			kit.InBoth(s, func(f corev1.IPFamily) {
				in[f], out[f] = s.HostBeyond(n), s.HostBeyond(n)
				ranges, vips = append(ranges, kit.Alone(in[f].Addr(f))), append(vips, s.FreeAddr())
			})
			svc := s.Service(kit.LoadBalanced, kit.Both, kit.DualStack, kit.SourceRanges(ranges...))
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, n.A.Ready()) })
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vips...)
			for _, vip := range vips {
				s.In(map[bool]corev1.IPFamily{true: corev1.IPv4Protocol, false: corev1.IPv6Protocol}[vip.Is4()], func() {
					s.Each(svc.WaysTo(vip, in[s.Family]), kit.Pods(n.A))
					s.Each(svc.WaysTo(vip, out[s.Family]), kit.Unreachable())
				})
			}
		},
	}
}
