package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortNoEndpointsRejectedFromInside() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-no-endpoints-rejected-from-inside", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "What nodes and pods send to a node port of a Service without endpoints is refused, under each policy, by TCP and UDP.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny, promise.RefusedWithoutEndpoints},
		Run: func(s *kit.Spec) {
			svc, n, other := s.Service(kit.NodePorts, kit.Both), s.Nodes[0], s.Nodes[1]
			ways := svc.NodePortWays(n, n.Client, n.B.Client, other.Client, other.B.Client)
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc.Update(policy)
				svc.Endpoints(n.A.Ready())
				s.Each(ways, kit.Pods(n.A))
				svc.Endpoints()
				s.Each(ways, kit.Rejected())
			}
		},
	}
}
