package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalEndpointMovesLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-endpoint-moves-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port begins to answer where an endpoint comes to, and no more where the last one left.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.Synchronized},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(here.A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(here)), kit.Pods(here.A))
			svc.Endpoints(there.A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(there)), kit.Pods(there.A))
			s.Expect(here.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(there.A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(here)), kit.Unreachable())
		},
	}
}
