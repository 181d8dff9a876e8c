package behaviours

import (
	"fmt"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func manyEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "many-endpoints", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service of 128 endpoints, in more slices than one, reaches each of them, and of those that are left when most of them go again each; connections that stand idle meanwhile stay.",
		Promises: []promise.Promise{promise.Slices, promise.ClusterIP},
		Source:   []string{"https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/"},
		Run: func(s *kit.Spec) {
			pods := s.EightPods()
			ports := s.Serve(9000, 16, pods...)
			svc := s.Service()
			for _, number := range ports {
				svc.SliceAt(fmt.Sprint(number), int32(number), kit.ReadyAll(pods)...)
			}
			// Of 128 one is spared by chance in 128 * (127/128)^4500, once in 10^13 rounds.
			client := s.Nodes[3].B.Client
			other := s.Service()
			other.Endpoints(pods[0].Ready())
			s.Each(other.Ways(client), kit.Pods(pods[0]))
			stay := stand(s, other.Ways(client)) // idle, while there are thousands of others
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).AtAll(ports, 4500))
			stay()
			for _, number := range ports[2:] {
				svc.DeleteSlice(fmt.Sprint(number))
			}
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).AtAll(ports[:2], 500))
		},
	}
}
