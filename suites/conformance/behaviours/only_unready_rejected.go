package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func onlyUnreadyRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "only-unready-rejected", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service whose endpoints are all unready is answered by none of them, at its ClusterIP and its node ports, by TCP and UDP: connections are refused, or dropped.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			ways := svc.Ways(s.Inside()...)
			ways = append(ways, svc.NodePortWaysOfAll()...)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.NotReady())
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.AllKinds(kit.Endpoint.Unready)
			s.Each(ways, kit.Unreachable())
			svc.Endpoints(s.Nodes[3].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[3].A))
			svc.Endpoints(s.Nodes[3].A.Ready().With(new(false), new(true), new(false)))
			s.Each(ways, kit.Unreachable())
		},
	}
}
