package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowLeavesUnready() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-leaves-unready", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow whose endpoint is not ready any more, and stays in its slice, reaches a ready one, without a new source port.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Run: func(s *kit.Spec) {
			svc, a, b := s.Service(kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.NotReady())
			ways := append(svc.Ways(s.Nodes[3].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			s.Each(ways, kit.Pods(a))
			reach := flow(s, ways)
			reach(a)
			svc.Endpoints(a.NotReady(), b.Ready())
			reach(b)
		},
	}
}
