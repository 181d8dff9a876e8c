package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNoneHereDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-none-here-dropped", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node without endpoints drops what comes to its node port from outside, while others have some, each port for itself.",
		Promises: []promise.Promise{promise.ExternalLocalDrops, promise.SourceTrusted},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			want := svc.Kinds()
			s.Each(svc.Ways(s.PodClients()...), want)
			for i, server := range s.OfKinds() {
				s.Each(svc.NodePortWays(s.Nodes[i], s.Outside()), kit.Only(server))
			}
			s.Each(svc.NodePortWays(s.Nodes[3], s.Outside()), kit.Dropped())
			svc = s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			apartLocally(s, svc, func(n *kit.Node) []kit.Way { return svc.NodePortWays(n, s.Outside()) }, kit.Dropped())
		},
	}
}
