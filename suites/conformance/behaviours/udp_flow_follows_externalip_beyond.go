package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsExternalIPBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-externalip-beyond", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "UDP flows of a host outside and of a node to an external IP whose endpoint has gone reach another one, also after there was none for a while, with session affinity and without.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.ExternalIPs},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Long:     true,
		Run: func(s *kit.Spec) {
			n := s.Nodes
			for _, affinity := range affinities() {
				addr := s.FreeAddr()
				svc := s.Service(affinity, kit.ExternalIPs(addr), kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
				svc.Endpoints(n[0].A.Ready())
				follow(s, svc, svc.WaysTo(addr, s.HostBeyond(n[3]), n[3].Client), n[0].A, n[1].A, n[2].A)
			}
		},
	}
}
