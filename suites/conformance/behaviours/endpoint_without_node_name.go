package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func endpointWithoutNodeName() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-without-node-name", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint of which the slice names no node is used under policy Cluster, from every node, at the ClusterIP and at node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.NoSelector, promise.NodeName},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A
			svc.Endpoints(kit.Address(pod.Addr(s.Family)))
			for _, n := range s.Nodes[:2] {
				s.Each(append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...), kit.Pods(pod))
			}
		},
	}
}
