package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesWide() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-wide", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "A source range that is more than one address lets its first and its last address through, and not those before and after it, also where ranges touch, lie within each other or are there twice, and, where the API has such, where one names an address within it; ranges of other lengths, up to half of all addresses, let an address within through, and one in the range beside not.",
		Promises: []promise.Promise{promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			host, row := s.HostWithRow(s.Nodes[0]) // eight addresses, of which the middle four are a range
			want, whole := kit.Pods(s.Nodes[0].A, s.Nodes[1].A), kit.Around(row[2], 2)
			half, nested, unmasked := kit.Around(row[2], 1), kit.Alone(row[3]), netip.PrefixFrom(row[4], row[4].BitLen()-2).String()
			hold := func() {
				for i, at := range row {
					to := svc.WaysTo(vip, host.As(at))
					if i >= 2 && i < 6 {
						s.Each(to, want)
					} else {
						s.Each(to, kit.Unreachable())
					}
				}
			}
			// Kubernetes 1.36 refuses such a range where it is new (KEP-4858); objects from before may have it still.
			if why := svc.UpdateIfValid("spec.loadBalancerSourceRanges", kit.SourceRanges(unmasked)); why != "" {
				s.Say("the API has no ranges that name an address within them: %s", why)
			} else {
				hold()
			}
			for _, ranges := range [][]string{{half, kit.Around(row[4], 1)}, {nested, whole, half, whole}} {
				svc.Update(kit.SourceRanges(ranges...))
				hold()
			}
			at := svc.WaysTo(vip, host.As(row[2]))
			for _, bits := range map[corev1.IPFamily][]int{corev1.IPv4Protocol: {8, 17, 31}, corev1.IPv6Protocol: {64, 81, 127}}[s.Family] {
				svc.Update(kit.SourceRanges(kit.Around(row[2], bits)))
				s.Each(at, want)
				svc.Update(kit.SourceRanges(kit.Around(beside(row[2], bits), bits)))
				s.Each(at, kit.Unreachable())
			}
		},
	}
}

// beside is an address in the range next to the one of so many bits around another: the two make up one that is twice
// as wide.
func beside(a netip.Addr, bits int) netip.Addr {
	b, at := a.AsSlice(), a.BitLen()-bits-1
	b[at/8] ^= 0x80 >> (at % 8)
	out, _ := netip.AddrFromSlice(b)
	return out
}
