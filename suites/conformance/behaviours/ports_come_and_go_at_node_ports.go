package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portsComeAndGoAtNodePorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "ports-come-and-go-at-node-ports", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Ports that a Service gets are served at their node ports and the ClusterIP, and those that it has no more are reached there no more, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.MultiPort, promise.EveryNode, promise.Synchronized},
		Upstream: "[sig-network] Services should be updated after adding or deleting ports",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			comeAndGo(s, svc, func() []kit.Way {
				return append(svc.NodePortWays(n[0], s.Outside(), n[0].B.Client, n[3].Client), svc.Ways(n[0].B.Client, n[3].Client)...)
			}, n[1].A)
		},
	}
}
