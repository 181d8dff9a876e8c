package behaviours

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowKeptOnUnrelatedChange() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-kept-on-unrelated-change", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP, a node port, the address of a load balancer in VIP mode or an external IP stays at its endpoint while others of the Service come and go, one of three among them, its labels, ports and affinity change, and while other Services change and lose the same endpoint.",
		Promises: []promise.Promise{promise.FlowsCleaned, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			other := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			a, b, client, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].B.Client, s.Nodes[2]
			ways := ofPort(waysBy(s, via, svc, addrs), 1) // by UDP
			svc.Endpoints(a.Ready())
			s.Each(ways, kit.Pods(a))
			var flows []*kit.Flows
			for _, way := range ways {
				flows = append(flows, s.Flows(way.From, way.To, 8)) // of sockets with a peer: others may be given another endpoint for each datagram
			}
			for _, f := range flows {
				f.Reach(a.Client)
			}
			svc.Endpoints(a.Ready(), b.Ready())
			s.Each(ways, kit.Pods(a, b))
			ofBoth := s.Flows(ways[0].From, ways[0].To, 8)
			ofBoth.Reach(a.Client, b.Client)
			later := append(slices.Clone(flows), ofBoth)
			s.Stay(later...)
			other.Endpoints(b.Ready())
			s.Each(other.Ways(client), kit.Pods(b))
			s.Stay(later...)
			other.Endpoints(a.Ready(), b.Ready())
			s.Each(other.Ways(client), kit.Pods(a, b))
			other.Endpoints(b.Ready())
			s.Each(other.Ways(client), kit.Pods(b))
			s.Stay(later...)
			for _, change := range []func(*corev1.Service){
				func(o *corev1.Service) { o.Labels = map[string]string{"tier": "web"} },
				func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolUDP, 54)) },
				kit.Sticky(600), kit.NotSticky,
			} {
				svc.Update(change)
				heard(s, client)
				s.Stay(later...)
			}
			c := s.Nodes[3].A
			for _, left := range [][]kit.Endpoint{{a.Ready(), b.Ready()}, {a.Ready(), b.Ready(), c.NotReady()}} {
				svc.Endpoints(a.Ready(), b.Ready(), c.Ready())
				s.Each(ways, kit.Pods(a, b, c))
				svc.Endpoints(left...)
				s.Each(ways, kit.Pods(a, b))
				s.Stay(later...) // eight that are all assigned anew stay by chance once in 2^8, of each way
			}
			svc.Endpoints(a.Ready())
			other.Endpoints(a.Ready())
			s.Each(append(other.Ways(client), ways...), kit.Pods(a))
			s.Stay(flows...)
		},
	}
}
