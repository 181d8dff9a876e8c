package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

func hintsNodeMissingOneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-missing-one-falls-back", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:   "If one ready endpoint has no node hint, node hints do not count.",
		Source: []string{"KEP-3015"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			a, b := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(a.A.Ready().ForNodes(a.Name), b.A.Ready())
			s.Expect(a.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(a.A, b.A))
		},
	}
}
