package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpLocalHairpin() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-local-hairpin", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under internalTrafficPolicy=Local a pod reaches itself by the ClusterIP, the only endpoint of its node, one of several or one that comes back, at any target port, and while it terminates where such are used, by TCP and UDP.",
		Promises: []promise.Promise{promise.Hairpin, promise.AnyTargetPort, promise.InternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.InternalLocal, kit.Both), s.Nodes[0]
			svc.SliceAt("elsewhere", kit.PodPort, s.Nodes[1].A.Ready())
			meetsItself(s, svc, svc.Ways(n.A.Client), 25_300, n.A, n.B)
		},
	}
}
