package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeChangeLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-change-live", Level: kit.Should, Profile: kit.ProfileTopology,
		Says:     "Hints of nodes that come, change and go are followed, at a ClusterIP, a node port and the address of a load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.SameNode, promise.Distribution},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureNodeHints},
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s, kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			a, b := s.Nodes[0], s.Nodes[1]
			ways := append(svc.Ways(a.B.Client, a.Client), svc.WaysTo(vip, a.B.Client)...)
			ways = append(ways, svc.NodePortWays(a, s.Outside())...)
			for _, c := range []struct {
				hints [2]string // of the pod on a, and of that on b
				want  []*kit.Pod
			}{
				{[2]string{}, []*kit.Pod{a.A, b.A}},
				{[2]string{a.Name, b.Name}, []*kit.Pod{a.A}},
				{[2]string{b.Name, a.Name}, []*kit.Pod{b.A}},
				{[2]string{}, []*kit.Pod{a.A, b.A}},
			} {
				first, second := a.A.Ready(), b.A.Ready()
				if c.hints[0] != "" {
					first, second = first.ForNodes(c.hints[0]), second.ForNodes(c.hints[1])
				}
				svc.Endpoints(first, second)
				s.Each(ways, kit.Pods(c.want...))
			}
		},
	}
}
