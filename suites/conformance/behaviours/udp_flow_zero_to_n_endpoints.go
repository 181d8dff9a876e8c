package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowZeroToNEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-zero-to-n-endpoints", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow that was begun while the Service had no endpoint is answered once there is one, without a new source port: of pods, beside the endpoint too, and nodes to a ClusterIP, of a pod and outside to a node port, and of a pod and a node to the address of a load balancer.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.UDP, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to preserve UDP traffic when initial unready endpoints get ready",
		Run: func(s *kit.Spec) {
			svc, n, vip := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Nodes, s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Endpoints()
			ways := append(svc.Ways(n[0].B.Client, n[0].Client, n[2].B.Client), svc.NodePortWays(n[1], s.Outside(), n[1].B.Client)...)
			ways = append(ways, svc.WaysTo(vip, n[0].B.Client, n[1].Client)...)
			s.Expect(ways[0].From, ways[0].To, kit.Unreachable())
			var flows []*kit.Flows
			for _, way := range ways {
				f := s.Datagrams(way.From, way.To, 8)
				f.Unanswered()
				flows = append(flows, f)
			}
			svc.Endpoints(n[2].A.Ready())
			for _, f := range flows {
				f.Reach(n[2].A.Client)
			}
		},
	}
}
