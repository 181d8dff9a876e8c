package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeNoneFallsBackToZone() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-none-falls-back-to-zone", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "A client on a node that no ready endpoint is hinted for gets those hinted for its zone.",
		Promises: []promise.Promise{promise.SameNode, promise.SameZone, promise.Distribution},
		Features: []kit.Feature{kit.FeatureNodeHints, kit.FeatureZoneHints},
		Upstream: "[sig-network] Traffic Distribution should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode",
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			n := s.Zoned()
			svc.Endpoints(
				n[1].A.Ready().ForNodes(n[1].Name).ForZones(n[0].Zone),
				n[2].A.Ready().ForNodes(n[2].Name).ForZones(n[2].Zone),
			)
			s.Expect(n[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A))
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A))
		},
	}
}
