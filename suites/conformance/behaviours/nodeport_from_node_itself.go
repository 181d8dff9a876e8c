package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortFromNodeItself() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-from-node-itself", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node reaches a node port at its own address and at those of other nodes.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode},
		Run: func(s *kit.Spec) {
			svc, node := s.Service(kit.NodePorts), s.Nodes[0]
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(node.Client, kit.TCP(svc.NodePort(node)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(node.Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
