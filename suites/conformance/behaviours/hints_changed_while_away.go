package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-changed-while-away", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Zone hints that changed while the agents were away count when they are back: an agent that starts knows its node's zone.",
		Promises: []promise.Promise{promise.SameZone, promise.WatchesItsNode, promise.Synchronized},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones, kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			here, there := n[0].A, n[1].A
			hint := func(first, second *kit.Node) {
				svc.Endpoints(here.Ready().ForZones(first.Zone), there.Ready().ForZones(second.Zone))
			}
			hint(n[0], n[1])
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(here))
			s.Expect(n[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there))
			s.WithoutAgents(func() { hint(n[1], n[0]) })
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there))
			s.Expect(n[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(here))
		},
	}
}
