package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-hairpin", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A pod reaches itself by an external IP, the only endpoint, one of several or one that comes back, at any target port, and while it terminates where such are used, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.AnyTargetPort, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			svc, addr := atExternalIP(s)
			self := s.Nodes[0].A
			meetsItself(s, svc, svc.WaysTo(addr, self.Client), 25_100, self, s.Nodes[1].A)
		},
	}
}
