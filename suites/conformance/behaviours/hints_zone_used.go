package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-used", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If all ready endpoints are hinted for zones, a client gets those hinted for its node's zone, wherever they are; with session affinity one of these, and stays there.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Upstream: "[sig-network] Traffic Distribution should route traffic to an endpoint in the same zone when using PreferSameZone",
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(
				n[0].A.Ready().ForZones(n[0].Zone),
				n[1].A.Ready().ForZones(n[1].Zone),
				n[1].B.Ready().ForZones(n[0].Zone, n[2].Zone),
			)
			at := kit.TCP(svc.ClusterIP())
			s.Expect(n[0].B.Client, at, kit.Pods(n[0].A, n[1].B))
			s.Expect(n[0].Client, at, kit.Pods(n[0].A, n[1].B))
			s.Expect(n[1].B.Client, at, kit.Pods(n[1].A))
			s.Expect(n[2].B.Client, at, kit.Pods(n[1].B))
			sticky := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone), kit.Sticky(600))
			for i, near := range zonal(sticky, n) {
				s.ExpectOne(n[i].B.Client, kit.TCP(sticky.ClusterIP()), 30, kit.Clients(near...)...)
			}
		},
	}
}
