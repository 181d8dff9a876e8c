package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceRecreatedOverItsSlices() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-recreated-over-its-slices", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service that is deleted and made anew under the same name has the slices that stayed, as they have become since, and meanwhile nobody answers for it.",
		Promises: []promise.Promise{promise.Slices, promise.Synchronized},
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			before := append(svc.Ways(s.PodClients()...), svc.NodePortWays(s.Nodes[2], s.Outside())...)
			s.Each(before, want)
			svc.DeleteAlone()
			s.Each(before, kit.Unreachable())
			svc.Make()
			s.Each(append(svc.Ways(s.PodClients()...), svc.NodePortWays(s.Nodes[2], s.Outside())...), want)
			svc.DeleteAlone()
			svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			heard(s, s.PodClients()...)
			svc.Make()
			s.Each(append(svc.Ways(s.PodClients()...), svc.NodePortWays(s.Nodes[2], s.Outside())...), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
		},
	}
}
