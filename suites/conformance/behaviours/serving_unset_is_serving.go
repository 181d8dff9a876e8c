package behaviours

import (
	ptr "k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func servingUnsetIsServing() kit.Behaviour {
	return kit.Behaviour{
		ID: "serving-unset-is-serving", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "An endpoint that terminates without saying whether it serves is taken as one that serves, at the ClusterIP and at node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.ServingUnset, promise.AllTerminating},
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			ways := append(svc.Ways(s.Nodes[0].B.Client), svc.NodePortWays(s.Nodes[2], s.Outside())...)
			a := s.Nodes[0].A.Ready().With(ptr.To(false), nil, ptr.To(true))
			svc.Endpoints(a, s.Nodes[1].A.Ready().With(ptr.To(true), nil, nil))
			s.Each(ways, kit.Pods(s.Nodes[1].A))
			svc.Endpoints(a, s.Nodes[1].A.Ending())
			s.Each(ways, kit.Pods(s.Nodes[0].A))
		},
	}
}
