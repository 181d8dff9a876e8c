package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-rejected", Level: kit.Should, Profile: kit.ProfileExternalIPs,
		Says:     "Connections to an externalIP are rejected while the Service has no endpoint, also under externalTrafficPolicy=Local.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr))
			client, to := s.Nodes[1].B.Client, kit.TCP(svc.At(addr))
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Expect(client, to, kit.Rejected())
		},
	}
}
