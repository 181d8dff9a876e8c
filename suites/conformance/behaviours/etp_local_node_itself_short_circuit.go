package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNodeItselfShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-node-itself-short-circuit", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node that dials its own node port reaches endpoints of all nodes.",
		Promises: []promise.Promise{promise.ShortCircuit},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Features: []kit.Feature{kit.FeatureShortCircuit},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
			s.Expect(s.Nodes[1].Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
		},
	}
}
