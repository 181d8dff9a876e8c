package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches itself by the ClusterIP of a Service of which it is an endpoint, the only one, one of several or one that comes back, at any target port, and while it terminates where such are used, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.AnyTargetPort},
		Upstream: "[sig-network] Services should allow pods to hairpin back to themselves through services",
		Run: func(s *kit.Spec) {
			svc, self := s.Service(kit.Both), s.Nodes[0].A
			meetsItself(s, svc, svc.Ways(self.Client), 25_000, self, s.Nodes[1].A)
		},
	}
}
