package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func etpLocalNodeItselfShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-node-itself-short-circuit", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node that dials its own node port reaches endpoints of all nodes.",
		Source:   []string{"KEP-2450", "https://github.com/kubernetes/kubernetes/issues/123714"},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
			s.Expect(s.Nodes[1].Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
		},
	}
}
