package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsAfterRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-after-restart", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "UDP flows whose endpoint has gone while the agents were away reach another one when they are back: of a pod, a node and hosts outside, to a ClusterIP, a node port and the address of a load balancer.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.Synchronized, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Needs:    []kit.Need{kit.NeedAgents, kit.NeedNodes},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			n, vip := s.Nodes, s.FreeAddr()
			svc := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(n[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			ways := append(svc.Ways(n[2].B.Client, n[2].Client), svc.WaysTo(vip, n[2].B.Client, s.HostBeyond(n[2]))...)
			ways = append(ways, svc.NodePortWays(n[2], s.Outside(), n[2].B.Client)...)
			s.Each(ways, kit.Pods(n[0].A))
			reach := flow(s, ways)
			reach(n[0].A)
			s.WithoutAgents(func() { svc.Endpoints(n[1].A.Ready()) })
			reach(n[1].A)
		},
	}
}
