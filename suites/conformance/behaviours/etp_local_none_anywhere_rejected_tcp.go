package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNoneAnywhereRejectedTCP() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-none-anywhere-rejected-tcp", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node port refuses connections, and does not drop, if the Service has no endpoint on any node.",
		Promises: []promise.Promise{promise.LocalRefusedWithoutAny},
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			for _, n := range s.Nodes[:2] {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(n.A))
			}
			svc.Endpoints(s.Nodes[0].A.NotReady())
			for _, n := range s.Nodes[:2] {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Rejected())
			}
		},
	}
}
