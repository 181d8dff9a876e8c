package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneMissingOneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-missing-one-falls-back", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If one ready endpoint has no zone hint, none of the hints counts, be it in a slice of its own.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone), n[2].A.Ready())
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A, n[1].A, n[2].A))
			apart := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			apart.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			apart.Slice("b", nil, n[2].A.Ready())
			s.Expect(n[0].B.Client, kit.TCP(apart.ClusterIP()), kit.Pods(n[0].A, n[1].A, n[2].A))
		},
	}
}
