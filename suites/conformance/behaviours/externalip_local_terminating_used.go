package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalTerminatingUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-terminating-used", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Under externalTrafficPolicy=Local a node whose endpoints all terminate and still serve goes on with them at an external IP, of every kind, by TCP and UDP, whether others are ready elsewhere or not.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.ExternalLocal},
		Features: []kit.Feature{kit.TerminatingFallback, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr), kit.Both)
			hosts := s.HostsBeyond(s.Nodes[:3]...)
			for _, elsewhere := range [][]kit.Endpoint{nil, {s.Nodes[3].A.Ready()}} {
				svc.Ending(append(elsewhere, s.Nodes[0].B.Ending())...)
				for i, server := range s.OfKinds() {
					s.Each(svc.WaysTo(addr, hosts[i]), kit.Only(server).FromItself())
				}
			}
		},
	}
}
