package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches itself by a node port, at its own node under each policy and at another, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.NodePort},
		Run: func(s *kit.Spec) {
			svc, local, self := s.Service(kit.NodePorts, kit.Both), s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both), s.Nodes[0].A
			svc.Endpoints(self.Ready())
			local.Endpoints(self.Ready())
			s.Each(append(svc.NodePortWays(s.Nodes[0], self.Client), svc.NodePortWays(s.Nodes[1], self.Client)...), kit.Pods(self))
			s.Each(local.NodePortWays(s.Nodes[0], self.Client), kit.Pods(self))
		},
	}
}
