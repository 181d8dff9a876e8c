package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func namedPortsPerSlice() kit.Behaviour {
	return kit.Behaviour{
		ID: "named-ports-per-slice", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Endpoints of one port whose slices name different target ports are each reached at their own.",
		Promises: []promise.Promise{promise.NamedPorts, promise.SlicePorts},
		Upstream: "[sig-network] Services should connect to the named targetPorts that resolve to different ports",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort)}, s.Nodes[0].A.Ready())
			svc.Slice("b", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.OtherPort)}, s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A, s.Nodes[1].A).
				ServedAt(kit.PodPort, s.Nodes[0].A.Client).ServedAt(kit.OtherPort, s.Nodes[1].A.Client))
		},
	}
}
