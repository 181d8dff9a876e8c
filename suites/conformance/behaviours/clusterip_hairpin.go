package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches itself by the ClusterIP of a Service of which it is an endpoint, the only one or one of several.",
		Promises: []promise.Promise{promise.Hairpin},
		Upstream: "[sig-network] Services should allow pods to hairpin back to themselves through services",
		Run: func(s *kit.Spec) {
			svc, self, other := s.Service(), s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(self.Ready())
			s.Expect(self.Client, kit.TCP(svc.ClusterIP()), kit.Pods(self))
			svc.Endpoints(self.Ready(), other.Ready())
			s.Expect(self.Client, kit.TCP(svc.ClusterIP()), kit.Pods(self, other))
		},
	}
}
