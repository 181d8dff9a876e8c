package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalOnlySameNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-only-same-node", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port leads outside clients to that node's endpoints only.",
		Promises: []promise.Promise{promise.ExternalLocal},
		Upstream: "[sig-network] Services should support externalTrafficPolicy=Local for type=NodePort",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[0].A, s.Nodes[0].B))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A))
		},
	}
}
