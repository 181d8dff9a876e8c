package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalPodShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-pod-short-circuit", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a pod that dials the node port of its own node reaches endpoints of all nodes.",
		Promises: []promise.Promise{promise.ShortCircuit},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Features: []kit.Feature{kit.FeatureShortCircuit},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
		},
	}
}
