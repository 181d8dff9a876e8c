package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalPodShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-pod-short-circuit", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a pod that dials the node port of its own node reaches endpoints of all nodes, by TCP and UDP, and with session affinity one of any node, also where none is on its own.",
		Promises: []promise.Promise{promise.ShortCircuit, promise.Affinity},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Features: []kit.Feature{kit.FeatureShortCircuit},
		Run: func(s *kit.Spec) {
			shortCircuit(s, func(n *kit.Node) kit.Client { return n.B.Client })
		},
	}
}
