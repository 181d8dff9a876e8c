package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowServiceRecreated() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-service-recreated", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP, a node port or the address of a load balancer reaches the endpoint of the Service that has it, when that is another one than before.",
		Promises: []promise.Promise{promise.Transported, promise.Synchronized, promise.UDP, promise.EveryNode, promise.Ingress},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true,
		Run: func(s *kit.Spec) {
			n, vip, dns := s.Nodes, s.FreeAddr(), kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))
			old := s.Service(kit.LoadBalanced, dns)
			old.Endpoints(n[0].A.Ready())
			old.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			ways := append(old.Ways(n[3].B.Client, n[3].Client), old.WaysTo(vip, n[3].B.Client, n[3].Client)...)
			ways = append(ways, old.NodePortWays(n[3], s.Outside(), n[3].B.Client)...)
			s.Each(ways, kit.Pods(n[0].A))
			reach := flow(s, ways)
			reach(n[0].A)
			was := old.Object().Spec
			old.Delete()
			svc := s.Service(kit.LoadBalanced, dns, func(o *corev1.Service) {
				o.Spec.ClusterIP, o.Spec.Ports[0].NodePort = was.ClusterIP, was.Ports[0].NodePort
			})
			svc.Endpoints(n[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			reach(n[1].A)
		},
	}
}
