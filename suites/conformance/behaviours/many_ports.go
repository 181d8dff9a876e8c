package behaviours

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func manyPorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "many-ports", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Each of a hundred and forty ports of a Service, half of TCP and half of UDP, is served, at its ClusterIP and its node port, by its own endpoints, also where a hundred of them are those of one slice.",
		Promises: []promise.Promise{promise.MultiPort, promise.PortName, promise.SlicePorts, promise.EveryNode},
		Run: func(s *kit.Spec) {
			var ports []corev1.ServicePort
			for i := range int32(140) {
				ports = append(ports, kit.Port(fmt.Sprintf("p%d", i), []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}[i%2], 1000+i))
			}
			svc, pods, n := s.Service(kit.NodePorts, kit.Ports(ports...)), s.EightPods(), s.Nodes
			for of, p := range pods {
				var its []discoveryv1.EndpointPort
				for i := of; i < len(ports); i += len(pods) {
					its = append(its, kit.SlicePort(ports[i].Name, ports[i].Protocol, kit.PodPort))
				}
				svc.Slice(p.Name, its, p.Ready())
			}
			inside, outside := svc.Ways(n[0].B.Client), svc.NodePortWays(n[3], s.Outside())
			for of, p := range pods {
				var ways []kit.Way
				for i := of; i < len(ports); i += len(pods) {
					ways = append(ways, inside[i], outside[i])
				}
				s.Each(ways, kit.Pods(p).Times(4))
			}
			var most []discoveryv1.EndpointPort // as many as the API says that a slice may have
			for _, p := range ports[:100] {
				most = append(most, kit.SlicePort(p.Name, p.Protocol, kit.PodPort))
			}
			for _, p := range pods[1:] {
				svc.DeleteSlice(p.Name)
			}
			svc.Slice(pods[0].Name, most, pods[0].Ready())
			s.Each(append(inside[:100:100], outside[:100]...), kit.Pods(pods[0]).Times(4))
		},
	}
}
