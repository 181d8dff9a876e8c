package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "If all ready endpoints are hinted for nodes, a client gets those hinted for its node, also if others are hinted for its zone.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution},
		Features: []kit.Feature{kit.FeatureNodeHints},
		Upstream: "[sig-network] Traffic Distribution should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode",
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			n := s.Zoned()
			a, b := n[0], n[1] // of zones that differ: a hint may not name one twice
			svc.Endpoints(
				a.A.Ready().ForNodes(a.Name).ForZones(a.Zone, b.Zone),
				b.A.Ready().ForNodes(b.Name).ForZones(a.Zone, b.Zone),
			)
			at := kit.TCP(svc.ClusterIP())
			s.Expect(a.B.Client, at, kit.Pods(a.A))
			s.Expect(a.Client, at, kit.Pods(a.A))
			s.Expect(b.B.Client, at, kit.Pods(b.A))
		},
	}
}
