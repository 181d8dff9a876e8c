package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func apiOutageDeletionsFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "api-outage-deletions-followed", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service and a slice that were deleted while nodes did not reach the API are gone when they do again: no event says so any more.",
		Promises: []promise.Promise{promise.Synchronized},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAPI, kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // clients of the API ask again after a second, then half as often each time
			gone, left, via := s.Service(kit.NodePorts, kit.Both), s.Service(), s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			gone.Endpoints(a.Ready())
			left.Slice("a", nil, a.Ready())
			left.Slice("b", nil, b.Ready())
			ways := append(gone.Ways(via.B.Client, via.Client), gone.NodePortWays(via, s.Outside())...)
			s.Each(ways, kit.Pods(a))
			s.Expect(via.B.Client, kit.TCP(left.ClusterIP()), kit.Pods(a, b))
			s.WithoutAPI(func() {
				gone.Delete()
				left.DeleteSlice("b")
				s.Pause(time.Second)
			})
			s.Each(ways, kit.Unreachable())
			s.Expect(via.B.Client, kit.TCP(left.ClusterIP()), kit.Pods(a))
		},
	}
}
