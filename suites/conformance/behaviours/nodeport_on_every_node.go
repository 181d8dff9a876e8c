package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortOnEveryNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-on-every-node", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port is served on every node, with an endpoint or without, and under policy Cluster leads to all endpoints.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode, promise.AnyNode},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for endpoint-Service: http",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			for _, n := range s.Nodes {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			}
		},
	}
}
