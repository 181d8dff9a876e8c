package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

func clusterIPHairpinUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-hairpin-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:   "A pod's datagram to the ClusterIP of a Service of which it is an endpoint comes back to it, and so does its answer.",
		Source: []string{"https://kubernetes.io/docs/reference/networking/virtual-ips/", "https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/"},
		Run: func(s *kit.Spec) {
			svc, self := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Nodes[0].A
			svc.Endpoints(self.Ready())
			s.Expect(self.Client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(self))
		},
	}
}
