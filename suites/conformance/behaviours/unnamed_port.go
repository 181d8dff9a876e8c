package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func unnamedPort() kit.Behaviour {
	return kit.Behaviour{
		ID: "unnamed-port", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service's only port may have no name: it leads to the ports of slices without a name, whether that is empty or not there, for TCP and UDP.",
		Promises: []promise.Promise{promise.PortName, promise.ClusterIP, promise.NodePort},
		Run: func(s *kit.Spec) {
			none := kit.SlicePort("", corev1.ProtocolTCP, kit.PodPort)
			none.Name = nil
			nor := kit.SlicePort("", corev1.ProtocolUDP, kit.PodPort)
			nor.Name = nil
			for _, port := range []discoveryv1.EndpointPort{kit.SlicePort("", corev1.ProtocolTCP, kit.PodPort), none, kit.SlicePort("", corev1.ProtocolUDP, kit.PodPort), nor} {
				svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("", *port.Protocol, 80)))
				svc.Slice("a", []discoveryv1.EndpointPort{port}, s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
				want := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
				s.Each(svc.WaysTo(svc.ClusterIP("").Addr(), s.PodClients()...), want)
				s.Each(svc.NodePortWays(s.Nodes[2], s.Outside(), s.Nodes[2].Client), want)
			}
		},
	}
}
