package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNoEndpointForZoneFallsBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-no-endpoint-for-zone-falls-back", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "A client in a zone that no ready endpoint is hinted for gets all of them, and is not left without an answer where one has no hint.",
		Promises: []promise.Promise{promise.ZoneWithoutEndpoints},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Upstream: "[sig-network] Traffic Distribution should route traffic correctly between pods on multiple nodes when using PreferSameZone",
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone), n[2].A.NotReady().ForZones(n[2].Zone))
			s.Expect(n[2].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A, n[1].A))
			svc.Endpoints(n[0].B.Ready().ForZones(n[0].Zone), n[1].B.Ready())
			s.Expect(n[2].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].B, n[1].B).OneWillDo())
		},
	}
}
