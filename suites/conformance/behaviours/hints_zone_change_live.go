package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneChangeLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-change-live", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Hints that come, change and go are followed.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			s.Expect(n[0].B.Client, at, kit.Pods(n[0].A, n[1].A))
			svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			s.Expect(n[0].B.Client, at, kit.Pods(n[0].A))
			svc.Endpoints(n[0].A.Ready().ForZones(n[1].Zone), n[1].A.Ready().ForZones(n[0].Zone))
			s.Expect(n[0].B.Client, at, kit.Pods(n[1].A))
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			s.Expect(n[0].B.Client, at, kit.Pods(n[0].A, n[1].A))
		},
	}
}
