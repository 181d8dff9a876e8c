package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-clusterip", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Connections and datagrams of each client to a ClusterIP are spread evenly over endpoints of every kind.",
		Promises: []promise.Promise{promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureSpread},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.Both), s.Nodes
			svc.Kinds()
			s.Even(svc.Ways(n[0].B.Client, n[3].B.Client, n[3].Client))
		},
	}
}
