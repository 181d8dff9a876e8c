package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-from-pod", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod reaches a node port at its own node and at others.",
		Promises: []promise.Promise{promise.NodePort, promise.EveryNode},
		Upstream: "[sig-network] Services should be able to create a functioning NodePort service",
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts), s.Nodes[0].B
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			for _, n := range s.Nodes {
				s.Expect(pod.Client, kit.TCP(svc.NodePort(n)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			}
		},
	}
}
