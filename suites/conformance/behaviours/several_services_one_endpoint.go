package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func severalServicesOneEndpoint() kit.Behaviour {
	return kit.Behaviour{
		ID: "several-services-one-endpoint", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod that is an endpoint of several Services is reached by each of them.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Slices},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for multiple endpoint-Services with same selector",
		Run: func(s *kit.Spec) {
			pod := s.Nodes[1].A
			for range 3 {
				svc := s.Service()
				svc.Endpoints(pod.Ready())
				s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			}
		},
	}
}
