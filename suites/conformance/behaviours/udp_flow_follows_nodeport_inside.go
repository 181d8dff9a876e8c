package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsNodePortInside() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-nodeport-inside", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "UDP flows of a pod and of a node to a node port, of their own node and of another, whose endpoint has gone reach another one, also after there was none for a while, with session affinity and without.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.EveryNode},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when server pod cycles for a NodePort service",
		Long:     true,
		Run: func(s *kit.Spec) {
			n := s.Nodes
			for _, affinity := range affinities() {
				svc := s.Service(affinity, kit.NodePorts, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
				svc.Endpoints(n[0].A.Ready())
				ways := append(svc.NodePortWays(n[3], n[3].B.Client, n[3].Client), svc.NodePortWays(n[2], n[3].B.Client, n[3].Client)...)
				follow(s, svc, ways, n[0].A, n[1].A, n[2].A)
			}
		},
	}
}
