package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalFromHostOfOtherNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-from-host-of-other-node", Level: kit.Should, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local a node is to another node's port as a host outside: it gets endpoints of that node only, which see its address, and silence where there are none.",
		Promises: []promise.Promise{promise.LocalForOtherNodes},
		Features: []kit.Feature{kit.FeatureLocalForNodes},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("udp", corev1.ProtocolUDP, 80)))
			here, there, client := s.Nodes[0], s.Nodes[1], s.Nodes[2].Client
			svc.Endpoints(here.A.Ready(), here.B.Ready(), s.Nodes[2].A.Ready())
			want := kit.Pods(here.A, here.B).From(s.Source(client, here))
			s.Expect(client, kit.TCP(svc.NodePort(here)), want)
			s.Expect(client, kit.UDP(svc.NodePort(here, "udp")), want)
			s.Expect(client, kit.TCP(svc.NodePort(there)), kit.Dropped())
			s.Expect(client, kit.UDP(svc.NodePort(there, "udp")), kit.Dropped())
			svc.Endpoints(here.A.Draining(), here.B.Ending(), there.A.Draining())
			s.Expect(client, kit.TCP(svc.NodePort(here)), kit.Pods(here.A))
		},
	}
}
