package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sctpClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "sctp-clusterip", Level: kit.Must, Profile: kit.ProfileSCTP,
		Says:     "A pod's association to a ClusterIP and to a node port for SCTP reaches each ready endpoint.",
		Promises: []promise.Promise{promise.SCTP, promise.Protocols},
		Source:   []string{"KEP-614"},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: sctp [Feature:SCTPConnectivity]",
		Features: []kit.Feature{kit.FeatureSCTP},
		Run: func(s *kit.Spec) {
			s.ServeSCTP(s.Nodes[0].A, s.Nodes[1].A)
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("sctp", corev1.ProtocolSCTP, 80)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.SCTP(svc.ClusterIP("sctp")), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(s.Nodes[0].B.Client, kit.SCTP(svc.NodePort(s.Nodes[1], "sctp")), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
		},
	}
}
