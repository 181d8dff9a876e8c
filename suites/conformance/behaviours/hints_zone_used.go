package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-used", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If all ready endpoints are hinted for zones, a client gets those hinted for its node's zone, wherever they are, also where they were asked for by PreferClose, and by another port, whose slices have no hint, all of its own; with session affinity one of these, and stays there; and so in each family of a Service of both.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution, promise.Families},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Upstream: "[sig-network] Traffic Distribution should route traffic to an endpoint in the same zone when using PreferSameZone",
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			n := s.Zoned()
			for _, by := range []string{corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose} {
				svc := s.Service(kit.Distribution(by))
				svc.Endpoints(
					n[0].A.Ready().ForZones(n[0].Zone),
					n[1].A.Ready().ForZones(n[1].Zone),
					n[1].B.Ready().ForZones(n[0].Zone, n[2].Zone),
				)
				near := svc.Ways(n[0].B.Client, n[0].Client)
				s.Each(near, kit.Pods(n[0].A, n[1].B))
				s.Each(svc.Ways(n[1].B.Client), kit.Pods(n[1].A))
				s.Each(svc.Ways(n[2].B.Client), kit.Pods(n[1].B))
				if s.Has(kit.FeatureSpread) {
					withinHalf(s, near, n[0].A.Client, n[1].B.Client)
				}
			}
			mixed := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone), kit.Both)
			mixed.Slice("hinted", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort)}, n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			mixed.Slice("unhinted", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort)}, n[0].A.Ready(), n[1].A.Ready())
			s.Each(ofPort(mixed.Ways(n[0].B.Client), 1), kit.Pods(n[0].A, n[1].A)) // by UDP; whether hints count by TCP is not said
			if s.Met(kit.NeedDual) {
				both := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone), kit.DualStack, kit.Both)
				hinted := []kit.Endpoint{n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone)}
				kit.InBoth(s, func(f corev1.IPFamily) { both.Slice(kit.SliceOf(f), nil, hinted...) })
				kit.InBoth(s, func(f corev1.IPFamily) {
					s.Each(both.WaysTo(both.ClusterIPOf(f).Addr(), n[0].B.Client), kit.Pods(n[0].A))
				})
			}
			sticky := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone), kit.Sticky(600))
			for i, near := range zonal(sticky, n) {
				s.ExpectOne(n[i].B.Client, kit.TCP(sticky.ClusterIP()), 30, kit.Clients(near...)...)
			}
		},
	}
}
