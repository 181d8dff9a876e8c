package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func severalPorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "several-ports", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Each port of a Service leads to its own target port of the endpoints.",
		Promises: []promise.Promise{promise.MultiPort, promise.PortName},
		Upstream: "[sig-network] Services should serve multiport endpoints from pods",
		Run: func(s *kit.Spec) {
			other := kit.Port("other", corev1.ProtocolTCP, 81)
			other.TargetPort = intstr.FromInt32(kit.OtherPort)
			svc, pod := s.Service(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), other)), s.Nodes[1].A
			svc.Endpoints(pod.Ready(), s.Nodes[0].A.Ready())
			for port, target := range map[string]uint16{"http": kit.PodPort, "other": kit.OtherPort} {
				s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP(port)), kit.Pods(pod, s.Nodes[0].A).ServedAt(target))
			}
		},
	}
}
