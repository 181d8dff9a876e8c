package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func readyOnly() kit.Behaviour {
	return kit.Behaviour{
		ID: "ready-only", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "While a Service has a ready endpoint, one that is not ready gets no connections.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.NotReady(), s.Nodes[1].A.NotReady(), s.Nodes[1].B.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A, s.Nodes[1].B))
			s.Expect(s.Nodes[2].Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A, s.Nodes[1].B))
		},
	}
}
