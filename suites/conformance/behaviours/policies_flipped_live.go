package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func policiesFlippedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "policies-flipped-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "A change of both policies to Local and back is followed at the ClusterIP, at node ports and at the address of a load balancer, by TCP and UDP, on a node with an endpoint and on one without.",
		Promises: []promise.Promise{promise.ReadyEndpoints, promise.ReadyEndpointsInside, promise.InternalLocal, promise.ExternalLocal, promise.Synchronized},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			at := func(n *kit.Node) []kit.Way {
				ways := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
				return append(ways, svc.WaysTo(vip, s.HostBeyond(n))...)
			}
			here, there, want := at(s.Nodes[0]), at(s.Nodes[3]), svc.Kinds()
			all := append(here[:len(here):len(here)], there...)
			s.Each(all, want)
			for range 2 {
				svc.Update(func(o *corev1.Service) { kit.InternalLocal(o); kit.ExternalLocal(o) })
				s.Each(here, kit.Pods(s.Nodes[0].A))
				s.Each(there, kit.Unreachable())
				svc.Update(func(o *corev1.Service) { o.Spec.InternalTrafficPolicy = nil; kit.ExternalCluster(o) })
				s.Each(all, want)
			}
		},
	}
}
