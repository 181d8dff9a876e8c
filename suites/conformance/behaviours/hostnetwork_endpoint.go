package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hostNetworkEndpoint() kit.Behaviour {
	return kit.Behaviour{
		ID: "hostnetwork-endpoint", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod in the network of its node is an endpoint like others, by its ClusterIP and at node ports, by TCP and UDP, from pods, nodes and outside.",
		Promises: []promise.Promise{promise.AnyBackend, promise.ClusterIP, promise.NodePort},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for service endpoints using hostNetwork",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			host := s.Nodes[1]
			svc.SliceAt("host", kit.HostPort, host.Ready())
			s.Each(svc.Ways(s.Inside()...), kit.Only(host.Client))
			s.Each(svc.NodePortWaysOfAll(), kit.Only(host.Client))
		},
	}
}
