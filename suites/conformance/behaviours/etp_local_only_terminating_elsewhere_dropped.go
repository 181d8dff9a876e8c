package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalOnlyTerminatingElsewhereDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-only-terminating-elsewhere-dropped", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Under externalTrafficPolicy=Local a node without endpoints drops what comes from outside while others have some that terminate and still serve, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalLocalDrops, promise.DrainLocal},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(there.A.Draining(), here.A.NotReady())
			s.Each(svc.NodePortWays(there, s.Outside()), kit.Pods(there.A))
			s.Each(svc.NodePortWays(here, s.Outside()), kit.Dropped())
		},
	}
}
