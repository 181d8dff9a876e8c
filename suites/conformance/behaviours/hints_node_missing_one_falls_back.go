package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeMissingOneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-missing-one-falls-back", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If one ready endpoint has no node hint, node hints do not count.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution},
		Features: []kit.Feature{kit.FeatureNodeHints},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			a, b := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(a.A.Ready().ForNodes(a.Name), b.A.Ready())
			s.Expect(a.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(a.A, b.A))
		},
	}
}
