package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsIgnoredUnderLocalVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-ignored-under-local-vip", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "Under externalTrafficPolicy=Local hints do not count at the address of a load balancer in VIP mode, at an external IP and for the healthCheckNodePort: hosts outside reach a node's own endpoints whatever they are hinted for, by TCP and UDP.",
		Promises: []promise.Promise{promise.PolicyBeforeHints, promise.ExternalIPs, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-4444"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s, kit.ExternalLocal)
			n := s.Zoned()
			hintElsewhere(svc, n)
			s.Each(waysToAll(svc, addrs, s.HostBeyond(n[0])), kit.Pods(n[0].A, n[0].B))
			s.Each(waysToAll(svc, addrs, s.HostBeyond(n[1])), kit.Pods(n[1].A))
			for _, at := range n[:2] {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(at), "/", kit.Status(200))
			}
		},
	}
}
