package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-from-node", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client in a node's own network to a ClusterIP go to one endpoint.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Both)
			svc.Kinds()
			s.EachOne(svc.Ways(s.NodeClients()...), s.OfKinds()...)
		},
	}
}
