package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-hairpin", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Under externalTrafficPolicy=Local a pod reaches itself by an external IP, the only endpoint or one of several, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.ExternalFromInside},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			self, other := s.Nodes[0].A, s.Nodes[1].A
			svc, addr := atExternalIP(s, kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(self.Ready())
			s.Each(svc.WaysTo(addr, self.Client), kit.Pods(self))
			svc.Endpoints(self.Ready(), other.Ready())
			s.Each(svc.WaysTo(addr, self.Client), kit.Pods(self, other))
		},
	}
}
