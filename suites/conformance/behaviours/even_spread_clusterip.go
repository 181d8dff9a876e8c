package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-clusterip", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Connections and datagrams of each client to a ClusterIP are spread evenly over endpoints of every kind, and under internalTrafficPolicy=Local over those of a node.",
		Promises: []promise.Promise{promise.AllEvenly, promise.InternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Features: []kit.Feature{kit.FeatureSpread},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.Both), s.Nodes
			svc.Kinds()
			s.Even(svc.Ways(n[0].B.Client, n[3].B.Client, n[3].Client))
			local := s.Service(kit.InternalLocal, kit.Both)
			local.Endpoints(n[0].A.Ready(), n[0].B.Ready(), n[1].A.Ready())
			withinHalf(s, local.Ways(n[0].B.Client), n[0].A.Client, n[0].B.Client)
		},
	}
}
