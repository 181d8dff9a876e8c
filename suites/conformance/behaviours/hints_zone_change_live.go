package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsZoneChangeLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-zone-change-live", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Hints of zones that come, change and go are followed, at a ClusterIP, a node port and the address of a load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.SameZone, promise.Distribution},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.FeatureZoneHints},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s, kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			a, b := n[0].A.Ready(), n[1].A.Ready()
			ways := append(svc.Ways(n[0].B.Client, n[0].Client), svc.WaysTo(vip, n[0].B.Client)...)
			ways = append(ways, svc.NodePortWays(n[0], s.Outside())...)
			svc.Endpoints(a, b)
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
			svc.Endpoints(a.ForZones(n[0].Zone), b.ForZones(n[1].Zone))
			s.Each(ways, kit.Pods(n[0].A))
			svc.Endpoints(a.ForZones(n[1].Zone), b.ForZones(n[0].Zone))
			s.Each(ways, kit.Pods(n[1].A))
			svc.Endpoints(a, b)
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
		},
	}
}
