package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingNotServingNeverUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-not-serving-never-used", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "An endpoint that terminates and does not serve gets no connections, even if no other is left.",
		Promises: []promise.Promise{promise.TerminatingNotServing, promise.Serving},
		Source:   []string{"KEP-1672"},
		Upstream: "[sig-network] Services should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(s.Nodes[0].A.Ending(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[1].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A))
			svc.Endpoints(s.Nodes[0].A.Ending(), s.Nodes[1].A.Ending())
			s.Expect(s.Nodes[0].B.Client, at, kit.Unreachable())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Unreachable())
		},
	}
}
