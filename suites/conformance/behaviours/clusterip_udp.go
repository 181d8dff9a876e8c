package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod's datagrams to a ClusterIP reach each ready endpoint, and the answers come back.",
		Promises: []promise.Promise{promise.ClusterIP, promise.UDP},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: udp",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(s.Nodes[0].Client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
