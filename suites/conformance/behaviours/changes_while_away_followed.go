package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func changesWhileAwayFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "changes-while-away-followed", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "What changed while the agents were away is followed when they are back: other endpoints, of which some are not ready, a Service that is gone, one that is new, with session affinity, and a hundred and fifty more.",
		Promises: []promise.Promise{promise.Synchronized},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			moved, gone := s.Service(kit.NodePorts), s.Service(kit.NodePorts)
			a, b, client, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].B.Client, s.Nodes[2]
			for _, svc := range []*kit.Service{moved, gone} {
				svc.Endpoints(a.Ready())
				s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(a))
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(via)), kit.Pods(a))
			}
			var fresh, sticky *kit.Service
			var more []kit.Way
			s.WithoutAgents(func() {
				moved.Endpoints(a.NotReady(), b.Ready(), s.Nodes[2].A.Ending())
				gone.Delete()
				fresh = s.Service(kit.NodePorts)
				fresh.Endpoints(a.Ready(), b.Ready())
				sticky = s.Service(kit.NodePorts, kit.Sticky(600))
				sticky.Endpoints(a.Ready(), b.Ready())
				for range 150 {
					svc := s.Service()
					svc.Endpoints(a.Ready())
					more = append(more, svc.Ways(client)...)
				}
			})
			s.Each(more, kit.Pods(a).Times(4))
			s.Expect(client, kit.TCP(moved.ClusterIP()), kit.Pods(b))
			s.Expect(s.Outside(), kit.TCP(moved.NodePort(via)), kit.Pods(b))
			s.Expect(client, kit.TCP(fresh.ClusterIP()), kit.Pods(a, b))
			s.Expect(s.Outside(), kit.TCP(fresh.NodePort(via)), kit.Pods(a, b))
			s.ExpectOne(client, kit.TCP(sticky.ClusterIP()), 30, a.Client, b.Client)
			s.ExpectOne(s.Outside(), kit.TCP(sticky.NodePort(via)), 30, a.Client, b.Client)
			s.Expect(client, kit.TCP(gone.ClusterIP()), kit.Unreachable())
			s.Expect(s.Outside(), kit.TCP(gone.NodePort(via)), kit.Unreachable())
		},
	}
}
