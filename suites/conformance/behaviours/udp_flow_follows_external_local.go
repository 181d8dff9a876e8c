package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsExternalLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-external-local", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "UDP flows from outside under externalTrafficPolicy=Local, to a node port, to the address of a load balancer and to an external IP, whose endpoint has gone reach another one of the same node, and those of pods and nodes to these addresses, with session affinity and without, another one of any node.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.ExternalLocal, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedOutside},
		Long:     true,
		Run: func(s *kit.Spec) {
			vip := s.FreeAddr()
			external, give := externalIP(s)
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal, give, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			n, elsewhere := s.Nodes[0], s.Nodes[1].A.Ready()
			svc.Endpoints(n.A.Ready(), elsewhere)
			ways := append(svc.NodePortWays(n, s.Outside()), waysToAll(svc, append(external, vip), s.HostBeyond(n))...)
			s.Each(ways, kit.Pods(n.A))
			reach := flow(s, ways)
			for _, p := range []*kit.Pod{n.A, n.B, n.A} {
				svc.Endpoints(p.Ready(), elsewhere)
				reach(p)
			}
			for _, affinity := range affinities() {
				svc, addrs := atAll(s, kit.ExternalLocal, affinity)
				svc.Endpoints(n.A.Ready())
				far := s.Nodes[3]
				follow(s, svc, ofPort(waysToAll(svc, addrs, far.B.Client, far.Client), 1), n.A, s.Nodes[1].A, s.Nodes[2].A)
			}
		},
	}
}
