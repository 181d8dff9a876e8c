package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func portProtocolChanged() kit.Behaviour {
	return kit.Behaviour{
		ID: "port-protocol-changed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A port of a Service whose protocol changes is served by this one, at its ClusterIP and its node port, and no more by the one before.",
		Promises: []promise.Promise{promise.EachProtocol, promise.Synchronized},
		Serial:   true, // others may be given the node port that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts), s.Nodes[1].A
			ways := func() []kit.Way {
				return append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside())...)
			}
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolTCP} {
				before := ways()
				changed := svc.Object().Spec.Ports[0].Protocol != protocol
				if changed {
					svc.Update(func(o *corev1.Service) { o.Spec.Ports[0].Protocol = protocol })
				}
				svc.Endpoints(pod.Ready())
				s.Each(ways(), kit.Pods(pod))
				if changed {
					s.Each(before, kit.Unreachable())
				}
			}
		},
	}
}
