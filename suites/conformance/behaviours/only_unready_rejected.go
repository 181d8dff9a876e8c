package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func onlyUnreadyRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "only-unready-rejected", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service whose endpoints are all unready is answered by none of them: connections are refused, or dropped.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.NotReady())
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].Client, at, kit.Pods(s.Nodes[0].A))
			svc.Endpoints(s.Nodes[0].A.NotReady(), s.Nodes[1].A.NotReady())
			s.Expect(s.Nodes[0].B.Client, at, kit.Unreachable())
			s.Expect(s.Nodes[2].Client, at, kit.Unreachable())
		},
	}
}
