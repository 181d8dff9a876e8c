package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-hairpin", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A pod reaches itself by an external IP, the only endpoint or one of several, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			self, other, addr := s.Nodes[0].A, s.Nodes[1].A, s.FreeAddr()
			svc := s.Service(kit.ExternalIPs(addr), kit.Both)
			svc.Endpoints(self.Ready())
			s.Each(svc.WaysTo(addr, self.Client), kit.Pods(self))
			svc.Endpoints(self.Ready(), other.Ready())
			s.Each(svc.WaysTo(addr, self.Client), kit.Pods(self, other))
		},
	}
}
