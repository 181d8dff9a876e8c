package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func quickChangesEndInTheLast() kit.Behaviour {
	return kit.Behaviour{
		ID: "quick-changes-end-in-the-last", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "After hundreds of changes in quick succession, of endpoints, ports and policies, the last of them holds on every node, and goes on to hold, also where a slice is deleted and at once made anew.",
		Promises: []promise.Promise{promise.Synchronized},
		Run: func(s *kit.Spec) {
			svc, a, b, c := s.Service(kit.NodePorts, kit.Both), s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A
			client := s.Nodes[3]
			for i := range 130 {
				svc.Endpoints([][]kit.Endpoint{{a.Ready()}, {}, {b.Ready()}, {a.Ready(), b.NotReady()}, {b.Draining()}}[i%5]...)
				svc.Update([]func(*corev1.Service){kit.ExternalLocal, kit.ExternalCluster}[i%2])
				if i%7 == 0 {
					svc.SliceAt("more", kit.OtherPort, c.Ready())
					svc.DeleteSlice("more")
				}
			}
			for range 2 {
				svc.DeleteSlice("a")
				svc.Endpoints(b.Ready(), c.Ready())
				s.Each(svc.Ways(s.Inside()...), kit.Pods(b, c))
				s.Each(svc.NodePortWays(client, s.Outside()), kit.Pods(b, c))
				s.Pause(kit.Heard) // what comes late, such as a periodic sync, is no step back
			}
		},
	}
}
