package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hostNetworkEndpoint() kit.Behaviour {
	return kit.Behaviour{
		ID: "hostnetwork-endpoint", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod in the network of its node is an endpoint like others, reached from pods and from other nodes.",
		Promises: []promise.Promise{promise.AnyBackend, promise.ClusterIP},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for service endpoints using hostNetwork",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.HostPort)}, s.Nodes[1].Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Only(s.Nodes[1].Client))
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), kit.Only(s.Nodes[1].Client))
		},
	}
}
