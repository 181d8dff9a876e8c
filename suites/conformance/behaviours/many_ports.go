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
		Says:     "Each of forty ports of a Service is served, at its ClusterIP and its node port, by its own endpoints.",
		Promises: []promise.Promise{promise.MultiPort, promise.PortName},
		Run: func(s *kit.Spec) {
			var ports []corev1.ServicePort
			for i := range int32(40) {
				ports = append(ports, kit.Port(fmt.Sprintf("p%d", i), corev1.ProtocolTCP, 1000+i))
			}
			svc, pods := s.Service(kit.NodePorts, kit.Ports(ports...)), s.EightPods()
			for i, p := range ports {
				svc.Slice(p.Name, []discoveryv1.EndpointPort{kit.SlicePort(p.Name, p.Protocol, kit.PodPort)}, pods[i%len(pods)].Ready())
			}
			for i, p := range ports {
				want := kit.Pods(pods[i%len(pods)]).Times(4)
				s.Expect(s.Nodes[i%len(s.Nodes)].B.Client, kit.TCP(svc.ClusterIP(p.Name)), want)
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[i%len(s.Nodes)], p.Name)), want)
			}
		},
	}
}
