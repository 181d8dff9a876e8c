package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalDoesNotAffectClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-does-not-affect-clusterip", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "externalTrafficPolicy=Local does not apply to a ClusterIP: it leads to endpoints of all nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalPolicy},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Each(svc.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client, s.Nodes[2].B.Client), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
