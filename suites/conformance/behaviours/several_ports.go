package behaviours

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func severalPorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "several-ports", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Each port of a Service leads to its own target port of the endpoints, also one with a name of 63 characters, one with an appProtocol, and one of the same number.",
		Promises: []promise.Promise{promise.MultiPort, promise.PortName},
		Upstream: "[sig-network] Services should serve multiport endpoints from pods",
		Run: func(s *kit.Spec) {
			other := kit.Port("other", corev1.ProtocolTCP, 81)
			other.TargetPort = intstr.FromInt32(kit.OtherPort)
			long := kit.Port(strings.Repeat("a-long-name-", 5)+"end", corev1.ProtocolTCP, 82)
			hinted := kit.Port("hinted", corev1.ProtocolTCP, 83)
			hinted.AppProtocol = new("plumbline.io/any")
			same := kit.Port("same", corev1.ProtocolTCP, kit.PodPort)
			svc, pod := s.Service(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), other, long, hinted, same)), s.Nodes[1].A
			var ports []discoveryv1.EndpointPort
			for _, p := range svc.Object().Spec.Ports {
				port := kit.SlicePort(p.Name, p.Protocol, p.TargetPort.IntVal)
				port.AppProtocol = p.AppProtocol
				ports = append(ports, port)
			}
			svc.Slice("a", ports, pod.Ready(), s.Nodes[0].A.Ready())
			for port, target := range map[string]uint16{"http": kit.PodPort, "other": kit.OtherPort, long.Name: kit.PodPort, hinted.Name: kit.PodPort, same.Name: kit.PodPort} {
				s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP(port)), kit.Pods(pod, s.Nodes[0].A).ServedAt(target))
			}
		},
	}
}
