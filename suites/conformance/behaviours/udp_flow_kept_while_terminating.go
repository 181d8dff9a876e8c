package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptWhileTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-while-terminating", Level: kit.May, Profile: kit.ProfileUDP,
		Says:     "A UDP flow stays at an endpoint that ends and still serves, while new flows go elsewhere, be it the only one or one of two.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Source:   []string{"KEP-1669"},
		Run: func(s *kit.Spec) {
			a, b, client := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].B.Client
			for _, pods := range [][]*kit.Pod{{a}, {a, b}} {
				svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
				svc.Endpoints(kit.ReadyAll(pods)...)
				to := kit.UDP(svc.ClusterIP("dns"))
				s.Expect(client, to, kit.Pods(pods...))
				flows := s.Flows(client, to, 8)
				flows.Reach(kit.Clients(pods...)...)
				svc.Endpoints(a.Draining(), b.Ready())
				s.Expect(client, to, kit.Pods(b))
				flows.Stay()
			}
		},
	}
}
