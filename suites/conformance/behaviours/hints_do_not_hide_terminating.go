package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsDoNotHideTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-do-not-hide-terminating", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "With no ready endpoint left, a client gets those that terminate and still serve even if they are hinted for other zones and nodes.",
		Promises: []promise.Promise{promise.AllTerminating, promise.RemoteIfNot},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(
				n[1].A.Draining().ForZones(n[1].Zone).ForNodes(n[1].Name),
				n[2].A.Draining().ForZones(n[2].Zone).ForNodes(n[2].Name),
			)
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A, n[2].A))
		},
	}
}
