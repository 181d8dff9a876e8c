package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPFromHostOfOtherNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-from-host-of-other-node", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A ClusterIP is reached from a node that has no endpoint of the Service.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[1].B.Ready())
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A, s.Nodes[1].B))
		},
	}
}
