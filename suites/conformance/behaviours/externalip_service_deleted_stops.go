package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPServiceDeletedStops() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-service-deleted-stops", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "An external IP is no longer answered by endpoints when its Service is gone, and another Service may have it, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.Synchronized},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			svc, addr := atExternalIP(s)
			ways := svc.WaysTo(addr, s.Inside()...)
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Delete()
			s.Each(ways, kit.Unreachable())
			other := s.Service(kit.ExternalIPs(addr), kit.Both)
			other.Endpoints(s.Nodes[2].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[2].A))
		},
	}
}
