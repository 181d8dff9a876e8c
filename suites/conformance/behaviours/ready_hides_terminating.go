package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func readyHidesTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "ready-hides-terminating", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "While one ready endpoint is left, those that terminate get no new connections or datagrams, wherever they are.",
		Promises: []promise.Promise{promise.SomeTerminating},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Both)
			want := svc.Kinds(s.Nodes[0].B.Draining(), s.Nodes[3].A.Draining(), s.Nodes[1].B.Ending())
			s.Each(svc.Ways(s.Inside()...), want)
			s.Each(svc.NodePortWaysOfAll(), want)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Draining())
			svc.SliceAt("port", kit.OtherPort)
			svc.SliceAt("host", kit.HostPort)
			s.Each(svc.Ways(s.PodClients()...), kit.Pods(s.Nodes[0].A))
		},
	}
}
