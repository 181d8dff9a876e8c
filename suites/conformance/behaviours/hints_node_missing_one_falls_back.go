package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeMissingOneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-missing-one-falls-back", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If one ready endpoint has no node hint, node hints do not count, and those for zones that all have do.",
		Promises: []promise.Promise{promise.SameNode, promise.SameZone, promise.Distribution},
		Features: []kit.Feature{kit.FeatureNodeHints},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			a, b := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(a.A.Ready().ForNodes(a.Name), b.A.Ready())
			s.Expect(a.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(a.A, b.A))
			if s.Has(kit.FeatureZoneHints) && s.Met(kit.NeedZones) {
				n := s.Zoned()
				svc.Endpoints(n[0].A.Ready().ForNodes(n[0].Name).ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
				s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A))
			}
		},
	}
}
