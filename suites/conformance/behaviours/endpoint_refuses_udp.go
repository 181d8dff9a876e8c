package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func endpointRefusesUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-refuses-udp", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A datagram, or a connection, to an endpoint where nobody listens at the port is refused: what the endpoint says, by ICMP or a reset, reaches the client's socket, of pods and nodes at a ClusterIP and of hosts outside at the address of a load balancer and at a node port.",
		Promises: []promise.Promise{promise.ErrorsTranslated},
		Writes:   kit.SinceClass,
		Source:   []string{"https://www.rfc-editor.org/rfc/rfc5508"},
		Features: []kit.Feature{kit.FeatureICMPErrors},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			vip, server := s.FreeAddr(), s.Nodes[1].A
			svc := s.Service(kit.LoadBalanced, kit.Both)
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Endpoints(server.Ready())
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[1].B.Client, s.Nodes[0].Client), svc.WaysTo(vip, s.HostBeyond(s.Nodes[0]))...)
			ways = append(ways, svc.NodePortWays(s.Nodes[0], s.Outside())...)
			s.Each(ways, kit.Pods(server))
			svc.SliceAt("a", kit.NobodysPort, server.Ready())
			s.Each(ways, kit.Rejected().ByPods())
		},
	}
}
