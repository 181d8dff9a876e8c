package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func slicesMerged() kit.Behaviour {
	return kit.Behaviour{
		ID: "slices-merged", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "The endpoints of a Service are those of all its slices; those of a slice that is deleted, or has none now, are none any more, be it the last. An endpoint with several addresses is reached by one of them, and a slice of a family that the Service has not, or of names, spoils nothing, at the ClusterIP and node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.Slices, promise.ClusterIP, promise.EveryNode},
		Source:   []string{"KEP-752"},
		Upstream: "[sig-network] EndpointSlice should support a Service with multiple endpoint IPs specified in multiple EndpointSlices",
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes[0]
			ways := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
			svc.Slice("a", nil, s.Nodes[0].A.Ready())
			svc.Slice("b", nil, s.Nodes[1].A.Ready())
			svc.Slice("c", nil, s.Nodes[1].B.Ready())
			other := map[corev1.IPFamily]corev1.IPFamily{corev1.IPv4Protocol: corev1.IPv6Protocol, corev1.IPv6Protocol: corev1.IPv4Protocol}[s.Family]
			s.In(other, func() { svc.Slice("other", nil, kit.Address(s.FreeAddr())) }) // for whom the Service has no address
			svc.SliceOfNames("names", "pod.example.com")
			s.Each(ways, kit.Pods(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[1].B))
			svc.DeleteSlice("b")
			s.Each(ways, kit.Pods(s.Nodes[0].A, s.Nodes[1].B))
			svc.DeleteSlice("a")
			s.Each(ways, kit.Pods(s.Nodes[1].B))
			svc.Slice("c", nil, s.Nodes[1].B.Ready().Also(s.Nodes[2].B))
			s.Each(ways, kit.Pods(s.Nodes[1].B, s.Nodes[2].B).OneWillDo())
			svc.DeleteSlice("c")
			s.Each(ways, kit.Unreachable())
			svc.Slice("d", nil, s.Nodes[0].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Slice("d", nil)
			s.Each(ways, kit.Unreachable())
		},
	}
}
