package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackExternalLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-external-local", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "The policies Local of a Service of both families hold in each: at the node that has the endpoint of the family, and not at another, at its ClusterIPs, node ports and the addresses of its load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.Families, promise.ExternalLocal, promise.InternalLocal, promise.InternalLocalOnly, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual, kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.LoadBalanced, kit.Both, kit.DualStack, kit.ExternalLocal, kit.InternalLocal), s.Nodes
			at := map[corev1.IPFamily]*kit.Node{corev1.IPv4Protocol: n[0], corev1.IPv6Protocol: n[1]}
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, at[f].A.Ready()) })
			vips := givenBoth(s, svc)
			kit.InBoth(s, func(f corev1.IPFamily) {
				for _, node := range n[:2] {
					inside, outside := kit.Unreachable(), kit.Unreachable()
					if node == at[f] {
						inside, outside = kit.Pods(node.A), kit.Pods(node.A).From(s.Source(s.Outside(), node))
					}
					s.Each(svc.WaysTo(svc.ClusterIPOf(f).Addr(), node.B.Client), inside)
					s.Each(svc.NodePortWays(node, s.Outside()), outside)
					if s.Met(kit.NeedNodes) {
						beyond := kit.Unreachable()
						if node == at[f] {
							beyond = kit.Pods(node.A).FromItself()
						}
						s.Each(svc.WaysTo(vips[f], s.HostBeyond(node)), beyond)
					}
				}
			})
		},
	}
}

// givenBoth gives a Service of both families an address of a load balancer in VIP mode in each.
func givenBoth(s *kit.Spec, svc *kit.Service) map[corev1.IPFamily]netip.Addr {
	at, vips := map[corev1.IPFamily]netip.Addr{}, []netip.Addr{}
	kit.InBoth(s, func(f corev1.IPFamily) {
		at[f] = s.FreeAddr()
		vips = append(vips, at[f])
	})
	svc.Ingress(corev1.LoadBalancerIPModeVIP, vips...)
	return at
}
