package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpAnswersLate() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-answers-late", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "An answer that an endpoint gives to a datagram after five seconds comes back, by a ClusterIP, a node port, the address of a load balancer and an external IP, to pods, nodes and outside, and by a ClusterIP also one that it gives after twenty-five.",
		Promises: []promise.Promise{promise.UDP, promise.EveryNode, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"RFC 4787, section 4.3"},
		Waits:    true,
		Run: func(s *kit.Spec) {
			const port = 9500
			n, vip, pod := s.Nodes, s.FreeAddr(), s.Nodes[0].A
			s.AnswerLate(pod, port, 0)
			external, give := externalIP(s)
			svc := s.Service(kit.LoadBalanced, give, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, port)}, pod.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			ways := append(svc.Ways(n[1].B.Client, n[1].Client), waysToAll(svc, append(external, vip), n[1].B.Client)...)
			ways = append(ways, svc.NodePortWays(n[1], s.Outside())...)
			s.Each(ways, kit.Pods(pod))
			s.AnswerLate(pod, port, 5*time.Second)
			for _, way := range ways {
				s.All(way.From, way.To, s.Attempts(way.From, way.To, remote.Batch{Attempts: 8, Timeout: 8 * time.Second}), pod.Client)
			}
			s.AnswerLate(pod, port, 25*time.Second) // Linux remembers what has had no answer for thirty
			s.All(ways[0].From, ways[0].To, s.Attempts(ways[0].From, ways[0].To, remote.Batch{Attempts: 8, Timeout: 28 * time.Second}), pod.Client)
		},
	}
}
