package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesMany() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-many", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "Of 122 loadBalancerSourceRanges each lets its clients through, and together they keep out all others, at each of several addresses of the load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			n := s.Nodes[0]
			first, last, outside := s.HostBeyond(n), s.HostBeyond(n), s.HostBeyond(n)
			nobodys := netip.MustParsePrefix(map[corev1.IPFamily]string{corev1.IPv4Protocol: "203.0.113.0/24", corev1.IPv6Protocol: "2001:db8:53:1::/64"}[s.Family])
			ranges := []string{kit.Alone(first.Addr(s.Family))}
			for i := range 120 {
				ranges = append(ranges, kit.Alone(kit.Within(nobodys, 2*i+1))) // none touches another
			}
			svc, one, two := s.Service(kit.LoadBalanced, kit.Both, kit.SourceRanges(append(ranges, kit.Alone(last.Addr(s.Family)))...)), s.FreeAddr(), s.FreeAddr()
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, one, two)
			for _, vip := range []netip.Addr{one, two} {
				s.Each(svc.WaysTo(vip, first, last), kit.Pods(n.A, s.Nodes[1].A))
				s.Each(svc.WaysTo(vip, outside), kit.Unreachable())
			}
		},
	}
}
