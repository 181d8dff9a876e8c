package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortMasqueradedUnderCluster() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-masqueraded-under-cluster", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Under policy Cluster an endpoint on another node sees the node whose port the client used as the source, so that answers go back by it.",
		Promises: []promise.Promise{promise.Masquerade},
		Features: []kit.Feature{kit.FeatureMasquerade},
		Run: func(s *kit.Spec) {
			svc, via := s.Service(kit.NodePorts), s.Nodes[0]
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(via)), kit.Pods(s.Nodes[1].A).From(via.Addr(s.Family)))
		},
	}
}
