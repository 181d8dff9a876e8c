package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodeWithoutZoneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "node-without-zone-falls-back", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "On a node without a zone, zone hints do not count.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones, kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A))
			s.Label(n[0], corev1.LabelTopologyZone, "")
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A, n[1].A))
		},
	}
}
