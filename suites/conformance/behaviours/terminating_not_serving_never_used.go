package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingNotServingNeverUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-not-serving-never-used", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "An endpoint that terminates and does not serve gets no connections or datagrams, even if no other is left, at the ClusterIP and at node ports.",
		Promises: []promise.Promise{promise.TerminatingNotServing, promise.Serving},
		Source:   []string{"KEP-1672"},
		Upstream: "[sig-network] Services should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			ways := svc.Ways(s.Inside()...)
			ways = append(ways, svc.NodePortWaysOfAll()...)
			svc.Endpoints(s.Nodes[0].A.Ending(), s.Nodes[1].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[1].A))
			svc.AllKinds(kit.Endpoint.Ended)
			s.Each(ways, kit.Unreachable())
		},
	}
}
