package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-from-node", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A node's connection to an external IP of a Service reaches its endpoints.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			vip := s.FreeAddr()
			svc := s.Service(kit.ExternalIPs(vip))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
