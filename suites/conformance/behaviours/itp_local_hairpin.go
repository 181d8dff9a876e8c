package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-hairpin", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a pod reaches itself by the ClusterIP, the only endpoint of its node or one of several, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.InternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.InternalLocal, kit.Both), s.Nodes[0]
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			s.Each(svc.Ways(n.A.Client), kit.Pods(n.A))
			svc.Endpoints(n.A.Ready(), n.B.Ready(), s.Nodes[1].A.Ready())
			s.Each(svc.Ways(n.A.Client), kit.Pods(n.A, n.B))
		},
	}
}
