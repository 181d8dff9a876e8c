package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowBeforeVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-before-vip", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow that was begun before an address was the load balancer of a Service is answered once it is.",
		Promises: []promise.Promise{promise.FlowsCleaned},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			client := s.Nodes[0].B.Client
			s.Expect(client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(s.Nodes[1].A))
			flows := s.Datagrams(client, kit.UDP(svc.At(vip, "dns")), 8)
			flows.Unanswered()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			flows.Reach(s.Nodes[1].A.Client)
		},
	}
}
