package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackExternalIPs() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-external-ips", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "A Service of both families is served at its external IPs of each, by the endpoints of that family, by TCP and UDP.",
		Promises: []promise.Promise{promise.Families, promise.AddressType, promise.ExternalIPs},
		Source:   []string{"KEP-563"},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedDual},
		Run: func(s *kit.Spec) {
			addrs := map[corev1.IPFamily]netip.Addr{}
			kit.InBoth(s, func(f corev1.IPFamily) { addrs[f] = s.FreeAddr() })
			svc := s.Service(kit.DualStack, kit.Both, kit.ExternalIPs(addrs[corev1.IPv4Protocol], addrs[corev1.IPv6Protocol]))
			at := map[corev1.IPFamily]*kit.Pod{corev1.IPv4Protocol: s.Nodes[0].A, corev1.IPv6Protocol: s.Nodes[1].A}
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, at[f].Ready()) })
			kit.InBoth(s, func(f corev1.IPFamily) { s.Each(svc.WaysTo(addrs[f], s.Inside()...), kit.Pods(at[f])) })
		},
	}
}
