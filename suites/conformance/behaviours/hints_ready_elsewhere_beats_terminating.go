package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsReadyElsewhereBeatsTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-ready-elsewhere-beats-terminating", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "A ready endpoint hinted for another zone is used rather than one of the own zone that terminates.",
		Promises: []promise.Promise{promise.SomeTerminating, promise.RemoteIfNot},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(n[0].A.Draining().ForZones(n[0].Zone), n[1].A.Ready().ForZones(n[1].Zone))
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A))
		},
	}
}
