package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowTargetPortChange() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-target-port-change", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP, a node port, the address of a load balancer or an external IP follows a change of the port of the endpoints, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.AnyTargetPort, promise.Ingress, promise.EveryNode},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to cleanup conntrack entries when UDP service target port changes for a NodePort service",
		Run: func(s *kit.Spec) {
			n, vip, pod := s.Nodes, s.FreeAddr(), s.Nodes[0].A
			external, give := externalIP(s)
			svc := s.Service(kit.LoadBalanced, give, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Endpoints(pod.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			ways := append(svc.Ways(n[1].B.Client, n[1].Client), waysToAll(svc, append(external, vip), n[1].B.Client, n[1].Client)...)
			ways = append(ways, svc.NodePortWays(n[1], s.Outside(), n[1].B.Client)...)
			s.Each(ways, kit.Pods(pod))
			reach := flowAt(s, ways)
			reach(pod, kit.PodPort)
			svc.SliceAt("a", kit.OtherPort, pod.Ready())
			reach(pod, kit.OtherPort)
		},
	}
}
