package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPNoEndpointsUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-unanswered", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "What pods and nodes send to an externalIP is not answered while the Service has no endpoint, under each policy, by TCP and UDP: it may be refused or dropped.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalIPs(addr), kit.Both)
			ways := svc.WaysTo(addr, s.Inside()...)
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc.Update(policy)
				svc.Endpoints(s.Nodes[0].A.Ready())
				s.Each(ways, kit.Pods(s.Nodes[0].A))
				svc.Endpoints()
				s.Each(ways, kit.Unreachable())
			}
		},
	}
}
