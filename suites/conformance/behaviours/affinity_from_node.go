package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-from-node", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections of a client in a node's own network to a ClusterIP go to one endpoint.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.ExpectOne(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), 40, kit.Clients(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A)...)
		},
	}
}
