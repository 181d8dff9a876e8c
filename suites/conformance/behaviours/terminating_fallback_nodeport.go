package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-nodeport", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "With no ready endpoint left, a node port leads to those that terminate and still serve, and to no others, from any node.",
		Promises: []promise.Promise{promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Upstream: "[sig-network] Services should fallback to terminating endpoints when there are no ready endpoints with externallTrafficPolicy=Cluster",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Draining(), s.Nodes[1].A.Draining(), s.Nodes[2].A.Ending())
			for _, n := range s.Nodes[:3] {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			}
		},
	}
}
