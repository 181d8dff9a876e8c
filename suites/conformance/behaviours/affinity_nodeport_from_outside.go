package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityNodePortFromOutside() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-nodeport-from-outside", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections of an outside client to a node port go to one endpoint.",
		Promises: []promise.Promise{promise.Affinity, promise.NodePort},
		Upstream: "[sig-network] Services should have session affinity work for NodePort service [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Sticky(600))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			servers := kit.Clients(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A)
			for _, n := range s.Nodes[:2] {
				s.ExpectOne(s.Outside(), kit.TCP(svc.NodePort(n)), 40, servers...)
			}
		},
	}
}
