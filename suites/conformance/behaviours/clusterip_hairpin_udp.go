package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPHairpinUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-hairpin-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod's datagram to the ClusterIP of a Service of which it is an endpoint comes back to it, and so does its answer.",
		Promises: []promise.Promise{promise.Hairpin, promise.UDP},
		Run: func(s *kit.Spec) {
			svc, self := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Nodes[0].A
			svc.Endpoints(self.Ready())
			s.Expect(self.Client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(self))
		},
	}
}
