package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-clusterip", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections of a pod to a ClusterIP go to one endpoint.",
		Promises: []promise.Promise{promise.Affinity},
		Upstream: "[sig-network] Services should have session affinity work for service with type clusterIP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			servers := kit.Clients(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A)
			for _, c := range []kit.Client{s.Nodes[0].B.Client, s.Nodes[1].B.Client} {
				s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 40, servers...)
			}
		},
	}
}
