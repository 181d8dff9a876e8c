package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-no-endpoints-rejected", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A connection to a ClusterIP whose Service has no endpoint (any more) is refused, to pods and nodes alike.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints},
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			ways := svc.Ways(s.Inside()...)
			s.Each(ways, kit.Rejected())
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[1].A))
			svc.Endpoints()
			s.Each(ways, kit.Rejected())
		},
	}
}
