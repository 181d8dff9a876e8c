package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func conditionsUnsetAreReady() kit.Behaviour {
	return kit.Behaviour{
		ID: "conditions-unset-are-ready", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint without conditions is ready, serves and does not terminate.",
		Promises: []promise.Promise{promise.Ready},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Ready().Bare(), s.Nodes[1].A.Ready(), s.Nodes[1].B.Draining())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2])), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
