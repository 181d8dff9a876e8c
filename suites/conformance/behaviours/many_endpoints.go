package behaviours

import (
	"fmt"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func manyEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "many-endpoints", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service of 264 endpoints, in more slices than one, reaches each of them, evenly, by TCP and UDP, and of those that are left when most of them go each, at its node ports too; connections that stand idle meanwhile stay.",
		Promises: []promise.Promise{promise.Slices, promise.ClusterIP, promise.AllEvenly, promise.UDP, promise.NodePort},
		Source:   []string{"https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/"},
		Long:     true,
		Run: func(s *kit.Spec) {
			pods := s.EightPods()
			ports := s.Serve(9000, 33, pods...)
			svc := s.Service(kit.NodePorts, kit.Both)
			for _, number := range ports {
				svc.SliceAt(fmt.Sprint(number), int32(number), kit.ReadyAll(pods)...)
			}
			// Who follows in order has all of them when a Service that comes later is served: rounds of thousands
			// that come too early would use up the ports of the client.
			client, after := s.Nodes[3].B.Client, s.Service() // a pod: who translates a node's own at its sockets has no flows to remember
			after.Endpoints(pods[0].Ready())
			s.Each(after.Ways(client), kit.Pods(pods[0]))
			stay := stand(s, after.Ways(client)) // idle, while there are thousands of others
			// Of 264 one is spared by chance in 264 * (263/264)^6500, once in 10^8 rounds, of 72 in 72 * (71/72)^1700.
			for _, way := range svc.Ways(client) {
				s.Expect(way.From, way.To, kit.Pods(pods...).AtAll(ports, 6500))
			}
			stay()
			for _, number := range ports[9:] {
				svc.DeleteSlice(fmt.Sprint(number))
			}
			for _, way := range append(svc.Ways(client), svc.NodePortWays(s.Nodes[0], s.Outside())...) {
				s.Expect(way.From, way.To, kit.Pods(pods...).AtAll(ports[:9], 1700))
			}
		},
	}
}
