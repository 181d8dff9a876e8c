package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hostNetworkEndpointLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "hostnetwork-endpoint-local-policy", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under policy Local, internal and external, an endpoint in the network of a node is that node's own: it answers there, and nobody elsewhere, by TCP and UDP.",
		Promises: []promise.Promise{promise.AnyBackend, promise.InternalLocal, promise.ExternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod (hostNetwork: true)",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal, kit.ExternalLocal, kit.Both)
			here, there := s.Nodes[0], s.Nodes[3]
			svc.SliceAt("host", kit.HostPort, here.Ready())
			s.Each(svc.Ways(here.B.Client, here.Client), kit.Only(here.Client))
			s.Each(svc.NodePortWays(here, s.Outside()), kit.Only(here.Client).From(s.Source(s.Outside(), here)))
			s.Each(svc.Ways(there.B.Client, there.Client), kit.Unreachable())
			s.Each(svc.NodePortWays(there, s.Outside()), kit.Unreachable())
		},
	}
}
