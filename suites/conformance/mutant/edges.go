package mutant

import (
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// edgeMutations are wrong where a field, a name, a number or an order is a seldom one.
func edgeMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"status-with-ports-not-read": ingress(func(in *corev1.LoadBalancerIngress) bool { return len(in.Ports) == 0 }),
		"status-with-names-not-read": ingress(func(in *corev1.LoadBalancerIngress) bool { return in.Hostname == "" }),
		"load-balancer-ip-served-before-it-is-given": servicesOf(func(s *corev1.Service) {
			if a := s.Spec.LoadBalancerIP; a != "" {
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
			}
		}),
		"load-balancer-not-at-node-addresses": onNodesLost(plan.LoadBalancer),
		"ports-without-number-spoil-slices": slicesOf(func(s *discoveryv1.EndpointSlice) {
			if slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return p.Port == nil }) {
				s.Endpoints = nil
			}
		}),
		"ports-beyond-128-not-served": servicesOf(func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:min(128, len(s.Spec.Ports))] }),
		"source-ranges-with-host-bits-not-understood": sourceRanges(func(r string) bool {
			p, err := netip.ParsePrefix(r)
			return err != nil || p == p.Masked()
		}),
		"source-ranges-not-held-with-affinity": frontends(func(f *plan.Frontend) {
			if f.Affinity > 0 {
				f.Restricted, f.Sources = false, nil
			}
		}),
		"first-endpoint-preferred-at-node-ports": preferred(at(plan.NodePort)),
		"first-endpoint-preferred-for-udp":       preferred(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"second-family-not-served-after-ipv6": servicesOf(func(s *corev1.Service) {
			if len(s.Spec.IPFamilies) > 1 && s.Spec.IPFamilies[0] == corev1.IPv6Protocol {
				s.Spec.IPFamilies, s.Spec.ClusterIPs = s.Spec.IPFamilies[:1], s.Spec.ClusterIPs[:1]
			}
		}),
		"internal-local-holds-at-node-port": internalHoldsAt(plan.NodePort),
		"names-of-services-cut":             namesCut(48),
		"node-ports-at-addresses-of-nobody": func(c *changes) {
			c.plan = func(p *plan.Plan) { p.Node.Addrs = append(slices.Clone(p.Node.Addrs), nobodys()...) }
		},
		"excluded-nodes-serve-no-node-ports": whereExcluded(func(p *plan.Plan) { p.Node.Addrs = nil }),
		"endpoints-of-excluded-nodes-not-used": whereExcluded(services(func(_ objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				out := &s.Frontends[i].Outside
				out.Endpoints = slices.DeleteFunc(slices.Clone(out.Endpoints), func(e plan.Endpoint) bool { return e.Local && len(out.Endpoints) > 1 })
			}
		})),
	}
}

// whereExcluded changes the plan of a node that is excluded from load balancers.
func whereExcluded(change func(*plan.Plan)) func(*changes) {
	return func(c *changes) {
		var excluded atomic.Bool
		nodeOf(func(n *corev1.Node) { excluded.Store(n.Labels[corev1.LabelNodeExcludeBalancers] != "") })(c)
		c.plan = func(p *plan.Plan) {
			if excluded.Load() {
				change(p)
			}
		}
	}
}

// preferred gives the first of some frontends' endpoints the share of four.
func preferred(of func(*plan.Frontend) bool) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if len(r.Endpoints) > 4 && of(f) {
			r.Endpoints = append(slices.Repeat(r.Endpoints[:1], 3), r.Endpoints...)
		}
	})
}

// namesCut takes slices for those of the Service that was heard of first of all whose names begin alike.
func namesCut(after int) func(*changes) {
	first := map[string]string{}
	return slicesOf(func(s *discoveryv1.EndpointSlice) {
		name := s.Labels[discoveryv1.LabelServiceName]
		cut := name[:min(after, len(name))]
		if first[cut] == "" {
			first[cut] = name
		}
		s.Labels[discoveryv1.LabelServiceName] = first[cut]
	})
}

// nobodys are the addresses that behaviours make up.
func nobodys() (out []netip.Addr) {
	a, six := netip.AddrFrom4([4]byte{198, 51, 100, 1}), netip.MustParseAddr("2001:db8:0:51::1")
	for range 253 {
		out = append(out, a, six)
		a, six = a.Next(), six.Next()
	}
	return out
}
