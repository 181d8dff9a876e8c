package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-unanswered", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Connections to an externalIP are not answered while the Service has no endpoint: they may be refused or dropped.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr))
			client, to := s.Nodes[1].B.Client, kit.TCP(svc.At(addr))
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Expect(client, to, kit.Unreachable())
		},
	}
}
