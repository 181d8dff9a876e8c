package behaviours

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func selectedPods() kit.Behaviour {
	return kit.Behaviour{
		ID: "selected-pods", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "The pods that a Service selects are reached by the slices that the control plane makes for it, at a target port by its number, and by a name that is another number on other pods; endpoints of a slice that somebody else made for it are reached beside them.",
		Promises: []promise.Promise{promise.AnyTargetPort, promise.NamedPorts, promise.Slices, promise.ClusterIP},
		Upstream: "[sig-network] Services should connect to the named targetPorts that resolve to different ports",
		Long:     true,
		Run: func(s *kit.Spec) {
			var first, second []*kit.Pod
			for _, n := range s.Nodes {
				first, second = append(first, n.A), append(second, n.B)
			}
			all := kit.Pods(append(first, second...)...)
			byNumber := s.Service(kit.NodePorts, kit.Selects(intstr.FromInt32(kit.OtherPort)))
			s.Each(byNumber.Ways(s.NodeClients()...), all.ServedAt(kit.OtherPort))
			s.Each(byNumber.NodePortWays(s.Nodes[0], s.Outside()), all.ServedAt(kit.OtherPort))
			byNumber.SliceAt("beside", kit.HostPort, s.Nodes[2].Ready())
			joined := kit.Only(append(kit.Clients(append(first, second...)...), s.Nodes[2].Client)...)
			s.Each(byNumber.Ways(s.NodeClients()...), joined)
			s.Each(byNumber.NodePortWays(s.Nodes[0], s.Outside()), joined)
			byName := s.Service(kit.Selects(intstr.FromString("web")))
			s.Each(byName.Ways(s.NodeClients()...), all.
				ServedAt(kit.PodPort, kit.Clients(first...)...).ServedAt(kit.OtherPort, kit.Clients(second...)...))
		},
	}
}
