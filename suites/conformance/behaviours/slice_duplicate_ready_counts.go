package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceDuplicateReadyCounts() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-duplicate-ready-counts", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "An address that one slice has as ready and another as terminating, as when a new pod got it before the old one is gone, is ready, whichever slice was written first.",
		Promises: []promise.Promise{promise.UniqueEndpoints},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/endpointslicecache.go#L235-L249"},
		Run: func(s *kit.Spec) {
			// Of one that is ready in a slice and not ready, but does not terminate, in another
			// kube-proxy leaves open what it is: no document decides that.
			pod, client := s.Nodes[1].A, s.Nodes[0].B.Client
			for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
				svc := s.Service()
				svc.Slice(order[0], nil, pod.Ending())
				svc.Slice(order[1], nil, pod.Ready())
				s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
				svc.Slice(order[0], nil, pod.Draining())
				s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			}
		},
	}
}
