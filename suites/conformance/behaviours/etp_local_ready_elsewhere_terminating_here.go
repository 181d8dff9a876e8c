package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalReadyElsewhereTerminatingHere() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-ready-elsewhere-terminating-here", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Under externalTrafficPolicy=Local a node whose endpoints all terminate goes on serving with them though other nodes have ready ones.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.DrainLocal},
		Upstream: "[sig-network] Services should fallback to local terminating endpoints when there are no ready endpoints with externalTrafficPolicy=Local",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Draining(), s.Nodes[1].A.Ready(), s.Nodes[1].B.Draining())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A))
		},
	}
}
