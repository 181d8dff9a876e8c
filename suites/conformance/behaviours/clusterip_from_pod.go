package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-from-pod", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod's connection to a ClusterIP reaches each ready endpoint, on its own node and others.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: http",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
