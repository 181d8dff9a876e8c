package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func severalServicesOneEndpoint() kit.Behaviour {
	return kit.Behaviour{
		ID: "several-services-one-endpoint", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Pods that are endpoints of several Services at once are reached by each of them, also from the source port of a connection to another one or to the pod itself, and by the others when one goes or loses them, each according to what it is there, ready or terminating; and each reaches itself by those that it is an endpoint of.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Slices, promise.Hairpin, promise.EveryNode, promise.Ready},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for multiple endpoint-Services with same selector",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}
			var services []*kit.Service
			var ways []kit.Way
			for range 3 {
				svc := s.Service(kit.NodePorts, kit.Both)
				svc.Endpoints(pods[0].Ready(), pods[1].Ready())
				services = append(services, svc)
				ways = append(ways, svc.Ways(s.PodClients()...)...)
				ways = append(ways, svc.NodePortWays(s.Nodes[2], s.Outside())...)
			}
			s.Each(ways, kit.Pods(pods...))
			for _, client := range []kit.Client{s.Nodes[3].B.Client, s.Outside()} {
				for _, svc := range append(services, services[0]) { // from the same ports one after the other
					sameFrom := svc.Ways(client)
					if client.Name == kit.Outside {
						sameFrom = svc.NodePortWays(s.Nodes[2], client)
					}
					for _, way := range sameFrom {
						samePorts(s, way, 23_000, pods...)
					}
				}
			}
			itself := kit.Way{From: s.Nodes[3].B.Client, To: kit.TCP(kit.At(pods[0], s.Family))}
			s.Expect(itself.From, itself.To, kit.Pods(pods[0]))
			for _, svc := range services[:2] { // and to the pod itself before each
				samePorts(s, itself, 23_000, pods[0])
				samePorts(s, svc.Ways(s.Nodes[3].B.Client)[0], 23_000, pods...)
			}
			here := func(svc *kit.Service) []kit.Way {
				return append(svc.Ways(s.Nodes[3].B.Client), svc.NodePortWays(s.Nodes[2], s.Outside())...)
			}
			services[0].Endpoints(pods[0].Draining(), pods[1].Ready())
			services[1].Endpoints(pods[0].Ready(), pods[1].Ending())
			s.Each(here(services[0]), kit.Pods(pods[1]))
			s.Each(here(services[1]), kit.Pods(pods[0]))
			s.Each(here(services[2]), kit.Pods(pods...))
			services[1].Endpoints(pods[0].Ready(), pods[1].Ready())
			services[0].Delete()
			gone := len(ways) / 3
			s.Each(ways[:gone], kit.Unreachable())
			s.Each(ways[gone:], kit.Pods(pods...))
			self := func(v *kit.Service) []kit.Way {
				return append(v.Ways(pods[0].Client), v.NodePortWays(s.Nodes[0], pods[0].Client)...)
			}
			for _, left := range services[1:] {
				s.Each(self(left), kit.Pods(pods...))
			}
			services[1].Endpoints(pods[1].Ready())
			s.Each(self(services[1]), kit.Pods(pods[1]))
			s.Each(self(services[2]), kit.Pods(pods...))
		},
	}
}
