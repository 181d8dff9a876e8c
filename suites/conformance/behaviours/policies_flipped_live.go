package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func policiesFlippedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "policies-flipped-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "A change of both policies to Local and back is followed at the ClusterIP, at node ports, at the address of a load balancer and at an external IP, by TCP and UDP, on a node with an endpoint, which sees the sources from outside while they are Local, and on one without; and so for clients that have an endpoint by affinity.",
		Promises: []promise.Promise{promise.ReadyEndpoints, promise.ReadyEndpointsInside, promise.InternalLocal, promise.ExternalLocal, promise.ExternalIPs, promise.Synchronized},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			bound, its := atAll(s, kit.Sticky(600))
			at := func(svc *kit.Service, addrs []netip.Addr, n *kit.Node, host kit.Client) []kit.Way {
				ways := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
				return append(ways, waysToAll(svc, addrs, host)...)
			}
			n, host, far := s.Nodes[0], s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[3])
			here, there, want := at(svc, addrs, n, host), at(svc, addrs, s.Nodes[3], far), svc.Kinds()
			bound.Kinds()
			sticky, stickyThere := at(bound, its, n, host), at(bound, its, s.Nodes[3], far)
			s.EachOne(append(sticky[:len(sticky):len(sticky)], stickyThere...), s.OfKinds()...)
			bound.Update(func(o *corev1.Service) { kit.InternalLocal(o); kit.ExternalLocal(o) })
			s.Each(sticky, kit.Pods(n.A))
			s.Each(stickyThere, kit.Unreachable())
			bound.Update(func(o *corev1.Service) { o.Spec.InternalTrafficPolicy = nil; kit.ExternalCluster(o) })
			s.EachOne(stickyThere, s.OfKinds()...)
			all := append(here[:len(here):len(here)], there...)
			s.Each(all, want)
			for range 2 {
				svc.Update(func(o *corev1.Service) { kit.InternalLocal(o); kit.ExternalLocal(o) })
				s.Each(here, kit.Pods(n.A))
				s.Each(waysToAll(svc, addrs, host), kit.Pods(n.A).FromItself())
				s.Each(svc.NodePortWays(n, s.Outside()), kit.Pods(n.A).From(s.Source(s.Outside(), n)))
				s.Each(there, kit.Unreachable())
				svc.Update(func(o *corev1.Service) { o.Spec.InternalTrafficPolicy = nil; kit.ExternalCluster(o) })
				s.Each(all, want)
			}
		},
	}
}
