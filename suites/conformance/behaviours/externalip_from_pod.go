package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-pod", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A pod's connection to an external IP of a Service reaches its endpoints.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Upstream: "[sig-network] Services should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node",
		Run: func(s *kit.Spec) {
			vip := s.FreeAddr()
			svc := s.Service(kit.ExternalIPs(vip))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
