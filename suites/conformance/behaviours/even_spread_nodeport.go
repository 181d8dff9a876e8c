package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func evenSpreadNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "even-spread-nodeport", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Connections and datagrams of each client to a node port are spread evenly over endpoints of every kind, at a node that has one and at one that has none.",
		Promises: []promise.Promise{promise.AllEvenly},
		Features: []kit.Feature{kit.FeatureSpread},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			svc.Kinds()
			s.Even(svc.NodePortWays(n[0], s.Outside(), n[0].B.Client, n[3].B.Client))
			s.Even(svc.NodePortWays(n[3], s.Outside(), n[3].Client, n[3].B.Client))
		},
	}
}
