package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityETPLocalFromOutside() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-etp-local-from-outside", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "Under externalTrafficPolicy=Local an outside client stays with one of the node's own endpoints.",
		Promises: []promise.Promise{promise.Affinity, promise.ExternalLocal},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			// A dataplane that takes all endpoints passes one Service by chance, in 2 of 9.
			for range 6 {
				svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Sticky(600))
				svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready(), s.Nodes[1].A.Ready())
				s.ExpectOne(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), 10, kit.Clients(s.Nodes[0].A, s.Nodes[0].B)...)
				s.ExpectOne(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), 10, s.Nodes[1].A.Client)
			}
		},
	}
}
