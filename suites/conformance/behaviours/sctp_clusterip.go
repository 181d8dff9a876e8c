package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sctpClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "sctp-clusterip", Level: kit.Must, Profile: kit.ProfileSCTP,
		Says:     "An association of a pod or a node to a ClusterIP, and of a pod to a node port, for SCTP reaches each ready endpoint.",
		Promises: []promise.Promise{promise.SCTP, promise.Protocols},
		Source:   []string{"KEP-614"},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: sctp [Feature:SCTPConnectivity]",
		Features: []kit.Feature{kit.FeatureSCTP},
		Run: func(s *kit.Spec) {
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}
			s.ServeSCTP(pods...)
			svc := s.Service(kit.NodePorts, kit.Ports(kit.Port("sctp", corev1.ProtocolSCTP, 80)))
			svc.Endpoints(pods[0].Ready(), pods[1].Ready())
			s.Each(svc.Ways(s.Inside()...), kit.Pods(pods...))
			for _, n := range s.FirstNodes() {
				s.Each(svc.NodePortWays(n, n.B.Client), kit.Pods(pods...))
			}
		},
	}
}
