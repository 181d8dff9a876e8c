package behaviours

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func policiesChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "policies-changed-while-away", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Policies that became Local or Cluster while the agents were away hold when they are back, and an endpoint that came to another node under Local is used there, at the ClusterIP, at node ports and at the address of a load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.InternalLocal, promise.ExternalLocal, promise.ReadyEndpoints, promise.ReadyEndpointsInside, promise.Synchronized, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents, kit.NeedNodes, kit.NeedOutside},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			n, host, far := s.Nodes, s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[3])
			local := func() (svc *kit.Service, here, there, inside []kit.Way) {
				svc, vip := atVIP(s, kit.InternalLocal, kit.ExternalLocal)
				svc.Endpoints(n[0].A.Ready())
				at := func(n *kit.Node, host kit.Client) []kit.Way {
					ways := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
					return append(ways, svc.WaysTo(vip, host)...)
				}
				here, there = at(n[0], host), at(n[3], far)
				s.Each(here, kit.Pods(n[0].A))
				s.Each(there, kit.Unreachable())
				inside = svc.WaysTo(vip, n[0].B.Client, n[3].B.Client, n[3].Client)
				s.Each(inside, kit.Pods(n[0].A))
				return svc, here, there, inside
			}
			freed, freedHere, freedThere, freedInside := local()
			moved, movedFrom, movedTo, movedInside := local()
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			none := append(svc.Ways(n[3].B.Client), svc.NodePortWays(n[3], s.Outside())...)
			none = append(none, svc.WaysTo(vip, far)...)
			here := append(svc.Ways(n[0].B.Client), svc.NodePortWays(n[0], s.Outside())...)
			here = append(here, svc.WaysTo(vip, host)...)
			s.Each(append(none[:len(none):len(none)], here...), kit.Pods(n[0].A, n[1].A))
			s.WithoutAgents(func() {
				svc.Update(func(o *corev1.Service) { kit.InternalLocal(o); kit.ExternalLocal(o) })
				freed.Update(func(o *corev1.Service) { kit.InternalCluster(o); kit.ExternalCluster(o) })
				moved.Endpoints(n[3].A.Ready())
			})
			s.Each(slices.Concat(freedHere, freedThere, freedInside), kit.Pods(n[0].A))
			s.Each(append(movedTo, movedInside...), kit.Pods(n[3].A))
			s.Each(movedFrom, kit.Unreachable())
			s.Each(here, kit.Pods(n[0].A))
			s.Each(svc.WaysTo(vip, host), kit.Pods(n[0].A).FromItself())
			s.Each(none, kit.Unreachable())
		},
	}
}
