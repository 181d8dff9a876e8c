package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func readyHidesTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "ready-hides-terminating", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "While one ready endpoint is left, those that terminate get no new connections, wherever they are.",
		Promises: []promise.Promise{promise.SomeTerminating},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Draining(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Draining())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Nodes[2].Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A))
		},
	}
}
