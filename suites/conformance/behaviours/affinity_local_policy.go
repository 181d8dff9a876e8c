package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-local-policy", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "Under policy Local a client stays with one of its node's endpoints at the ClusterIP, whatever it had before at the address of a load balancer, where it is one of all, by TCP and UDP; from outside with one of the node it arrives at, and with the other one there when that is gone, and either sees its address.",
		Promises: []promise.Promise{promise.Affinity, promise.InternalLocal, promise.ExternalFromInside, promise.ExternalLocal},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.InternalLocal, kit.ExternalLocal, kit.Sticky(600), kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Kinds(s.Nodes[0].B.Ready())
			n := s.Nodes[0]
			here := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
			host := s.HostBeyond(n)
			here = append(here, svc.WaysTo(vip, host)...)
			s.EachOne(svc.WaysTo(vip, s.Inside()...), append(s.OfKinds(), n.B.Client)...)
			s.EachOne(here, n.A.Client, n.B.Client)
			for _, left := range []*kit.Pod{n.A, n.B} { // either was somebody's
				svc.SliceAt("a", kit.PodPort, left.Ready())
				s.Each(here, kit.Pods(left))
				s.Each(svc.WaysTo(vip, host), kit.Pods(left).FromItself())
				s.Each(svc.NodePortWays(n, s.Outside()), kit.Pods(left).From(s.Source(s.Outside(), n)))
			}
		},
	}
}
