package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func readyOnly() kit.Behaviour {
	return kit.Behaviour{
		ID: "ready-only", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "While a Service has a ready endpoint, one that is not ready gets no connections or datagrams, at the ClusterIP and at node ports.",
		Promises: []promise.Promise{promise.Ready, promise.ReadyEndpointsInside},
		Upstream: "[sig-network] Services should not be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is false",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			want := svc.Kinds(s.Nodes[0].B.NotReady(), s.Nodes[1].B.NotReady())
			s.Each(svc.Ways(s.Inside()...), want)
			s.Each(svc.NodePortWaysOfAll(), want)
		},
	}
}
