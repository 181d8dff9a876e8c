package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalDoesNotAffectNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-does-not-affect-nodeport", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "internalTrafficPolicy=Local does not apply to a node port: it leads to endpoints of all nodes.",
		Promises: []promise.Promise{promise.InternalIndependent, promise.InternalPolicy},
		Writes:   kit.SinceInternalPolicy,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), want)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.NodePort(s.Nodes[0])), want)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2])), want)
		},
	}
}
