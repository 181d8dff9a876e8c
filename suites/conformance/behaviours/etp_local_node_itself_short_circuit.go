package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalNodeItselfShortCircuit() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-node-itself-short-circuit", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node that dials its own node port reaches endpoints of all nodes, by TCP and UDP, and with session affinity one of any node, also where none is on its own.",
		Promises: []promise.Promise{promise.ShortCircuit, promise.Affinity},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Features: []kit.Feature{kit.FeatureShortCircuit},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Run: func(s *kit.Spec) {
			shortCircuit(s, func(n *kit.Node) kit.Client { return n.Client })
		},
	}
}

// shortCircuit: under externalTrafficPolicy=Local a client on each of two nodes reaches all endpoints by the ports of its
// node, with affinity one of them: at a node without endpoints, too.
func shortCircuit(s *kit.Spec, client func(*kit.Node) kit.Client) {
	pods := []*kit.Pod{s.Nodes[1].A, s.Nodes[2].A}
	for i, affinity := range affinities() {
		svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both, affinity)
		svc.Endpoints(kit.ReadyAll(pods)...)
		ways := append(svc.NodePortWays(s.Nodes[0], client(s.Nodes[0])), svc.NodePortWays(s.Nodes[1], client(s.Nodes[1]))...)
		if i == 0 {
			s.Each(ways, kit.Pods(pods...))
			continue
		}
		s.EachOne(ways, kit.Clients(pods...)...)
		svc.Endpoints(s.Nodes[2].A.Ready()) // which is on neither
		s.Each(ways, kit.Pods(s.Nodes[2].A))
	}
}
