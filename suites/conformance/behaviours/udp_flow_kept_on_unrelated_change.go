package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptOnUnrelatedChange() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-on-unrelated-change", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow stays at its endpoint while others of the Service come and go, and while other Services change.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Run: func(s *kit.Spec) {
			svc, other := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b := s.Nodes[0].A, s.Nodes[1].A
			client, to := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			svc.Endpoints(a.Ready())
			s.Expect(client, to, kit.Pods(a))
			flows := s.Flows(client, to, 8)
			flows.Reach(a.Client)
			svc.Endpoints(a.Ready(), b.Ready())
			s.Expect(client, to, kit.Pods(a, b))
			flows.Stay()
			other.Endpoints(b.Ready())
			s.Expect(client, kit.UDP(other.ClusterIP("dns")), kit.Pods(b))
			flows.Stay()
			svc.Endpoints(a.Ready())
			other.Endpoints(a.Ready())
			s.Expect(client, to, kit.Pods(a))
			s.Expect(client, kit.UDP(other.ClusterIP("dns")), kit.Pods(a))
			flows.Stay()
		},
	}
}
