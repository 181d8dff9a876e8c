package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceBeforeService() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-before-service", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "Slices that are there before their Service are its endpoints when it comes.",
		Promises: []promise.Promise{promise.Slices, promise.Synchronized},
		Run: func(s *kit.Spec) {
			svc, other := s.Later(kit.NodePorts, kit.Both), s.Service()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			other.Endpoints(s.Nodes[2].A.Ready())
			s.Each(other.Ways(s.PodClients()...), kit.Pods(s.Nodes[2].A)) // the slice before it has been heard of
			svc.Make()
			want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			s.Each(svc.Ways(s.Inside()...), want)
			s.Each(svc.NodePortWays(s.Nodes[2], s.Outside()), want)
		},
	}
}
