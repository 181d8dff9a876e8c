package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func endpointOutsideTheCluster() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-outside-the-cluster", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "An endpoint whose address is of no pod and no node answers at the ClusterIP and the node port of those who have a route to it.",
		Promises: []promise.Promise{promise.AnyBackend, promise.NoSelector, promise.ClusterIP},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			from, to, addr := s.Nodes[0], s.Nodes[1], s.FreeAddr()
			s.Lead(from, to, addr)
			svc := s.Service(kit.NodePorts)
			svc.SliceAt("a", kit.HostPort, kit.Address(addr))
			s.Each(append(svc.Ways(from.A.Client, from.Client), svc.NodePortWays(from, s.Outside(), from.A.Client)...), kit.Only(to.Client))
		},
	}
}
