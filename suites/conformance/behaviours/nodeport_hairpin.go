package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-hairpin", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches itself by a node port, at its own node and at another.",
		Promises: []promise.Promise{promise.Hairpin, promise.NodePort},
		Run: func(s *kit.Spec) {
			svc, self := s.Service(kit.NodePorts), s.Nodes[0].A
			svc.Endpoints(self.Ready())
			s.Expect(self.Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(self))
			s.Expect(self.Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(self))
		},
	}
}
