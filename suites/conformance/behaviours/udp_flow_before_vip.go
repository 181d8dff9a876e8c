package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowBeforeVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-before-vip", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow that was begun before an address was the load balancer of a Service, or an external IP of it, is answered once it is, of a pod, a node and a host beyond it.",
		Promises: []promise.Promise{promise.FlowsCleaned, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Each(svc.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client), kit.Pods(s.Nodes[1].A))
			external, give := externalIP(s)
			clients := []kit.Client{s.Nodes[0].B.Client, s.Nodes[0].Client}
			if s.Met(kit.NeedNodes) {
				clients = append(clients, s.HostBeyond(s.Nodes[0]))
			}
			var flows []*kit.Flows
			for _, way := range waysToAll(svc, append(external, vip), clients...) {
				f := s.Datagrams(way.From, way.To, 8)
				f.Unanswered()
				flows = append(flows, f)
			}
			svc.Update(give)
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			for _, f := range flows {
				f.Reach(s.Nodes[1].A.Client)
			}
		},
	}
}
