package mutant

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// apartMutations are right for each of two things by itself, and wrong where they meet: many endpoints at one kind of
// address, a policy and a protocol, Services at one address, a Service of one type at the address of another.
func apartMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"endpoints-beyond-64-not-used-at-load-balancer":        onlyFirst(64, atBy(plan.LoadBalancer, objects.TCP)),
		"endpoints-beyond-64-not-used-at-external-ip":          onlyFirst(64, atBy(plan.ExternalIP, objects.UDP)),
		"endpoints-beyond-eight-not-used-under-local":          onlyFirst(8, func(f *plan.Frontend) bool { return f.Inside != nil }),
		"endpoints-beyond-eight-not-used-under-internal-local": onlyFirst(8, underInternalLocal),
		"endpoints-own-port-at-cluster-ip":                     further(ownPortAt(plan.ClusterIP)),
		"endpoints-own-port-at-load-balancer":                  further(ownPortAt(plan.LoadBalancer)),
		"node-ports-at-load-balancer-addresses":                further(nodePortsAt(plan.LoadBalancer)),
		"node-ports-at-external-ips":                           further(nodePortsAt(plan.ExternalIP)),
		"service-ports-at-nodes": further(func(of plan.Service, f *plan.Frontend) bool {
			if f.Kind != plan.ClusterIP || !slices.ContainsFunc(of.Frontends, func(o plan.Frontend) bool { return o.Kind == plan.NodePort }) {
				return false
			}
			f.Kind, f.Key.Addr, f.Outside.Masquerade = plan.NodePort, netip.Addr{}, plan.MasqAlways
			return !f.Key.IsWildcard()
		}),
		"short-circuit-missing-for-udp": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort && f.Key.Protocol == objects.UDP {
				f.Inside = nil
			}
		}),
		"short-circuit-missing-with-affinity": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort && f.Affinity > 0 {
				f.Inside = nil
			}
		}),
		"local-holds-for-all-at-an-address": localForAll,
		"draining-not-used-under-local-with-affinity": frontends(func(f *plan.Frontend) {
			drains := func(e plan.Endpoint) bool { return !slices.Contains(f.Inside.Endpoints, e) } // or all do
			if f.Affinity > 0 && f.Inside != nil && slices.ContainsFunc(f.Outside.Endpoints, drains) {
				f.Outside.Endpoints, f.Outside.Action = nil, plan.Drop
			}
		}),
		"masqueraded-at-cluster-ip-of-other-types": func(c *changes) {
			c.plan = services(func(_ objects.Name, s *plan.Service) {
				if slices.ContainsFunc(s.Frontends, func(f plan.Frontend) bool { return f.Kind == plan.NodePort }) {
					for i := range s.Frontends {
						if f := &s.Frontends[i]; f.Kind == plan.ClusterIP {
							f.Outside.Masquerade = plan.MasqAlways
						}
					}
				}
			})
		},
		"affinity-timeout-a-third-at-load-balancer": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.LoadBalancer {
				f.Affinity /= 3
			}
		}),
		"udp-flows-end-with-ports": flowsEnd(objects.UDP, func(_ objects.Name, s plan.Service) string {
			return fmt.Sprint(served(s).Outside.Action, len(s.Frontends))
		}),
		"udp-flows-end-with-an-endpoint": flowsEnd(objects.UDP, endpointsLost()),
	}
}

// ownPortAt has the endpoints' port at a Service's addresses of a kind.
func ownPortAt(k plan.Kind) func(plan.Service, *plan.Frontend) bool {
	return func(_ plan.Service, f *plan.Frontend) bool {
		if f.Kind != k || len(f.Outside.Endpoints) == 0 {
			return false
		}
		f.Key.Port = f.Outside.Endpoints[0].Port
		return true
	}
}

// endpointsLost says how often a Service that leads somewhere has lost an endpoint.
func endpointsLost() func(objects.Name, plan.Service) string {
	had, lost := map[objects.Name][]plan.Endpoint{}, map[objects.Name]int{}
	return func(name objects.Name, s plan.Service) string {
		f := served(s)
		gone := func(e plan.Endpoint) bool { return !slices.Contains(f.Outside.Endpoints, e) }
		if slices.ContainsFunc(had[name], gone) {
			lost[name]++
		}
		had[name] = slices.Clone(f.Outside.Endpoints)
		return fmt.Sprint(f.Outside.Action, lost[name])
	}
}

// underInternalLocal tells whether a ClusterIP leads to endpoints of the node alone, while there are others.
func underInternalLocal(f *plan.Frontend) bool {
	away := func(e plan.Endpoint) bool { return !e.Local }
	return f.Kind == plan.ClusterIP && !slices.ContainsFunc(f.Outside.Endpoints, away) && slices.ContainsFunc(f.Draining, away)
}

// nodePortsAt has the numbers of a Service's node ports at its addresses of a kind.
func nodePortsAt(k plan.Kind) func(plan.Service, *plan.Frontend) bool {
	return func(of plan.Service, f *plan.Frontend) bool {
		if f.Kind != plan.NodePort {
			return false
		}
		i := slices.IndexFunc(of.Frontends, func(o plan.Frontend) bool { return o.Kind == k && o.Key.IPv6 == f.Key.IPv6 })
		if i < 0 {
			return false
		}
		f.Kind, f.Key.Addr = k, of.Frontends[i].Key.Addr
		return true
	}
}

// localForAll has policy Local hold for all Services at an address where it holds for one of them.
func localForAll(c *changes) {
	local := map[netip.Addr]bool{} // ever
	c.plan = func(p *plan.Plan) {
		services(func(_ objects.Name, s *plan.Service) {
			for _, f := range s.Frontends {
				local[f.Key.Addr] = local[f.Key.Addr] || f.Kind == plan.LoadBalancer && f.Inside != nil
			}
		})(p)
		services(func(_ objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				if f := &s.Frontends[i]; f.Kind == plan.LoadBalancer && local[f.Key.Addr] {
					f.Outside.Endpoints = slices.DeleteFunc(f.Outside.Endpoints, func(e plan.Endpoint) bool { return !e.Local })
					if len(f.Outside.Endpoints) == 0 {
						f.Outside.Action = plan.Drop
					}
				}
			}
		})(p)
	}
}
