package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches itself by a node port, at its own node under each policy and at another, as the only endpoint, one of several or one that comes back, at any target port, and while it terminates where such are used, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.AnyTargetPort, promise.NodePort},
		Run: func(s *kit.Spec) {
			svc, local, self := s.Service(kit.NodePorts, kit.Both), s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both), s.Nodes[0].A
			meetsItself(s, svc, append(svc.NodePortWays(s.Nodes[0], self.Client), svc.NodePortWays(s.Nodes[1], self.Client)...), 25_500, self, s.Nodes[1].A)
			meetsItself(s, local, local.NodePortWays(s.Nodes[0], self.Client), 25_600, self, s.Nodes[0].B)
		},
	}
}
