package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hostNetworkEndpointFromItsOwnNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "hostnetwork-endpoint-from-its-own-node", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint in the network of a node is reached by its ClusterIP from that node itself, and from the pods on it.",
		Promises: []promise.Promise{promise.AnyBackend, promise.ClusterIP},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.HostPort)}, s.Nodes[1].Ready())
			s.Expect(s.Nodes[1].A.Client, kit.TCP(svc.ClusterIP()), kit.Only(s.Nodes[1].Client))
			s.Expect(s.Nodes[1].Client, kit.TCP(svc.ClusterIP()), kit.Only(s.Nodes[1].Client))
		},
	}
}
