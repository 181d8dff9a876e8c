package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowFollowsVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-follows-vip", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a load balancer in VIP mode whose endpoint has gone reaches another one, without a new source port, also after there was none for a while, with session affinity and without.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on different nodes",
		Long:     true,
		Run: func(s *kit.Spec) {
			for _, affinity := range affinities() {
				vip := s.FreeAddr()
				svc := s.Service(affinity, kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
				svc.Endpoints(s.Nodes[0].A.Ready())
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				follow(s, svc, svc.WaysTo(vip, s.Nodes[3].B.Client), s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A)
			}
		},
	}
}
