package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalPodShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-pod-short-circuit", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a pod that dials the node port of its own node, or the address of a load balancer in VIP mode or an external IP, reaches endpoints of all nodes, which see its own address.",
		Promises: []promise.Promise{promise.ShortCircuit, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Features: []kit.Feature{kit.FeatureShortCircuit},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			for _, n := range s.Nodes[:2] {
				ways := append(svc.NodePortWays(n, n.B.Client), waysToAll(svc, addrs, n.B.Client)...)
				s.Each(ways, kit.Pods(s.Nodes[1].A, s.Nodes[2].A).FromItself())
			}
		},
	}
}
