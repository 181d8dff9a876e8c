package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptWhenEndpointEnds() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-when-endpoint-ends", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "A TCP connection stays whole when its endpoint ends, as long as the pod itself serves it, also to the one endpoint of its node under the policies Local, and under session affinity, whose new connections go elsewhere.",
		Promises: []promise.Promise{promise.ConnectionsEnd, promise.DrainLocal, promise.Affinity, promise.SomeTerminating},
		Writes:   kit.SinceInternalPolicy,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready())
			inside, cluster := s.Nodes[2].B.Client, kit.TCP(svc.ClusterIP())
			outside, nodePort := s.Outside(), kit.TCP(svc.NodePort(s.Nodes[2]))
			s.Expect(inside, cluster, kit.Pods(a))
			s.Expect(s.Nodes[2].Client, cluster, kit.Pods(a))
			s.Expect(outside, nodePort, kit.Pods(a))
			local := s.Service(kit.NodePorts, kit.ExternalLocal, kit.InternalLocal)
			local.Endpoints(a.Ready(), b.Ready())
			here := append(local.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client), local.NodePortWays(s.Nodes[0], outside)...)
			s.Each(here, kit.Pods(a))
			sticky := s.Service(kit.NodePorts, kit.Sticky(600))
			sticky.Endpoints(a.Ready())
			bound := append(sticky.Ways(inside), sticky.NodePortWays(s.Nodes[2], outside)...)
			s.Each(bound, kit.Pods(a))
			stay := stand(s, append(here, bound...))
			flows := []*kit.Flows{s.Flows(inside, cluster, 8), s.Flows(s.Nodes[2].Client, cluster, 8), s.Flows(outside, nodePort, 8)}
			for _, end := range [][]kit.Endpoint{{a.Draining(), b.Ready()}, {a.Ending(), b.Ready()}} {
				local.Endpoints(end...)
				svc.Endpoints(end...)
				sticky.Endpoints(end...)
				heard(s, s.Nodes[0].B.Client, s.Nodes[2].B.Client)
				s.Expect(inside, cluster, kit.Pods(b))
				s.Expect(outside, nodePort, kit.Pods(b))
				s.Each(bound, kit.Pods(b))
				stay()
				s.Stay(flows...)
			}
		},
	}
}
