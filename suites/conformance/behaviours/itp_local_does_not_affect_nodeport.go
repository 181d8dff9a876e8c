package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalDoesNotAffectNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-does-not-affect-nodeport", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "internalTrafficPolicy=Local does not apply to a node port: it leads pods, nodes and hosts outside to endpoints of all nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.InternalIndependent, promise.InternalPolicy},
		Writes:   kit.SinceInternalPolicy,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal, kit.Both)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			s.Each(svc.Ways(s.Nodes[0].B.Client), kit.Pods(s.Nodes[0].A))
			for _, n := range []*kit.Node{s.Nodes[0], s.Nodes[2]} {
				s.Each(svc.NodePortWays(n, s.Outside(), n.B.Client, n.Client), want)
			}
		},
	}
}
