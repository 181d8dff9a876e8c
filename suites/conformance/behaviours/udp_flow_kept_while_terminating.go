package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptWhileTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-while-terminating", Level: kit.May, Profile: kit.ProfileUDP,
		Says:     "A UDP flow stays at an endpoint that ends and still serves, while new flows go elsewhere.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Source:   []string{"KEP-1669"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready())
			client, to := s.Nodes[2].B.Client, kit.UDP(svc.ClusterIP("dns"))
			s.Expect(client, to, kit.Pods(a))
			flows := s.Flows(client, to, 8)
			flows.Reach(a.Client)
			svc.Endpoints(a.Draining(), b.Ready())
			s.Expect(client, to, kit.Pods(b))
			flows.Stay()
		},
	}
}
