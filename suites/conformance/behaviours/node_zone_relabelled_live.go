package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodeZoneRelabelledLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "node-zone-relabelled-live", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "A change of a node's zone is followed: its clients get what is hinted for the new one.",
		Promises: []promise.Promise{promise.SameZone, promise.WatchesItsNode},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones, kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A))
			s.Label(n[0], corev1.LabelTopologyZone, n[1].Zone)
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A))
		},
	}
}
