package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-udp", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP datagrams of a client go to one endpoint, whichever port they are sent from.",
		Promises: []promise.Promise{promise.Affinity, promise.UDP, promise.EveryNode},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Sticky(600), kit.Ports(kit.Port("http", corev1.ProtocolUDP, 80)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			servers := kit.Clients(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A)
			s.ExpectOne(s.Nodes[0].B.Client, kit.UDP(svc.ClusterIP()), 40, servers...)
			s.ExpectOne(s.Outside(), kit.UDP(svc.NodePort(s.Nodes[0])), 40, servers...)
		},
	}
}
