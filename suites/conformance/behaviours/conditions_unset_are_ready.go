package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func conditionsUnsetAreReady() kit.Behaviour {
	return kit.Behaviour{
		ID: "conditions-unset-are-ready", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint without conditions is ready, serves and does not terminate, at the ClusterIP and at node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.Ready},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			svc.Endpoints(s.Nodes[0].A.Ready().Bare(), s.Nodes[1].A.Ready(), s.Nodes[1].B.Draining())
			s.Each(append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[2], s.Outside())...), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
