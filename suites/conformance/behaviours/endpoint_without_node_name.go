package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func endpointWithoutNodeName() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-without-node-name", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint of which the slice names no node, or one that is none of the cluster, is used under policy Cluster, from every node, at the ClusterIP and at node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.NoSelector, promise.NodeName, promise.Ready},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A
			for _, e := range []kit.Endpoint{kit.Address(pod.Addr(s.Family)), pod.Ready().On("no-such-node")} {
				svc.Endpoints(e)
				for _, n := range s.Nodes[:2] {
					s.Each(append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...), kit.Pods(pod))
				}
				svc.Endpoints(s.Nodes[0].A.Ready())
				s.Each(svc.Ways(s.Nodes[0].B.Client), kit.Pods(s.Nodes[0].A))
			}
		},
	}
}
