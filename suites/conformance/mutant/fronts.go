package mutant

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// frontMutations forget at one kind of address, protocol or family what holds at all.
func frontMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-not-at-external-ip":   affinityLost(func(f *plan.Frontend) bool { return f.Kind == plan.ExternalIP }),
		"affinity-not-at-load-balancer": affinityLost(func(f *plan.Frontend) bool { return f.Kind == plan.LoadBalancer }),
		"affinity-not-under-external-local": affinityLost(func(f *plan.Frontend) bool {
			return f.Inside != nil
		}),
		"affinity-not-under-internal-local": servicesOf(func(s *corev1.Service) {
			if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
				s.Spec.SessionAffinity = corev1.ServiceAffinityNone
			}
		}),
		"cluster-ips-not-served-for-udp": dropped(func(f plan.Frontend) bool {
			return f.Kind == plan.ClusterIP && f.Key.Protocol == objects.UDP
		}),
		"cluster-ip-missing-on-one-node": missingOnOneNode(plan.ClusterIP),
		"sctp-not-served":                dropped(func(f plan.Frontend) bool { return f.Key.Protocol == objects.SCTP }),
		"external-ip-of-first-port-only": firstPortOnly(plan.ExternalIP),
		"never-masqueraded-at-node-port": masquerade(plan.NodePort, plan.MasqAlways, plan.KeepSource),
		"unnamed-port-not-served": servicesOf(func(s *corev1.Service) {
			s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "" })
		}),
		"load-balancer-rejects-silently-outside": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.LoadBalancer && f.Outside.Action == plan.Reject && f.Inside == nil {
				f.Inside, f.Outside = new(f.Outside), plan.Route{Action: plan.Drop}
			}
		}),
		"last-endpoints-stay-at-load-balancer":  lastStay(plan.LoadBalancer),
		"terminating-not-used-at-external-ip":   terminatingNotUsed(plan.ExternalIP),
		"terminating-not-used-at-load-balancer": terminatingNotUsed(plan.LoadBalancer),
		"draining-used-at-external-ip":          drainingUsed(plan.ExternalIP),
		"draining-used-at-load-balancer":        drainingUsed(plan.LoadBalancer),
		"host-endpoints-taken-for-elsewhere":    hostEndpointsElsewhere,
		"node-ports-of-first-family-only":       firstFamilyOnly(plan.NodePort),
		"load-balancer-of-first-family-only":    firstFamilyOnly(plan.LoadBalancer),
		"affinity-of-first-family-only":         affinityLost(func(f *plan.Frontend) bool { return f.Key.IPv6 }),
		"health-checks-of-first-family-only":    counts(func(hc *plan.HealthCheck) { hc.IPv6 = 0 }),
		"node-ports-for-udp-not-at-ipv6": dropped(func(f plan.Frontend) bool {
			return f.Kind == plan.NodePort && f.Key.IPv6 && f.Key.Protocol == objects.UDP
		}),
	}
}

func affinityLost(at func(*plan.Frontend) bool) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		if at(f) {
			f.Affinity = 0
		}
	})
}

// firstPortOnly serves addresses of a kind at the port of a Service that comes first in the plan.
func firstPortOnly(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			first := map[netip.Addr]plan.Key{}
			s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
				if f.Kind != k {
					return false
				}
				if _, ok := first[f.Key.Addr]; !ok {
					first[f.Key.Addr] = f.Key
				}
				return first[f.Key.Addr] != f.Key
			})
		})
	}
}

// terminatingNotUsed drops where a route has no endpoint but those that terminate.
func terminatingNotUsed(k plan.Kind) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if f.Kind == k && r.Terminating {
			*r = plan.Route{Action: plan.Drop}
		}
	})
}

// drainingUsed forwards to the endpoints that terminate and serve beside those that are ready.
func drainingUsed(k plan.Kind) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if f.Kind == k && r.Action == plan.Forward {
			r.Endpoints = append(r.Endpoints, f.Draining...)
		}
	})
}

// hostEndpointsElsewhere takes endpoints at the node's own addresses for those of another node.
func hostEndpointsElsewhere(c *changes) {
	var mu sync.Mutex // guards own, which watches of two kinds use
	var own []string
	c.object = func(o runtime.Object) {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case *corev1.Node:
			own = nil
			for _, a := range o.Status.Addresses {
				own = append(own, a.Address)
			}
		case *discoveryv1.EndpointSlice:
			for i, e := range o.Endpoints {
				if slices.Contains(own, e.Addresses[0]) {
					o.Endpoints[i].NodeName = new("elsewhere")
				}
			}
		}
	}
}

// firstFamilyOnly serves a Service of two families at addresses of a kind in its first alone.
func firstFamilyOnly(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			of := map[bool]bool{}
			for _, f := range s.Frontends {
				of[f.Key.IPv6] = true
			}
			s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool { return len(of) == 2 && f.Kind == k && f.Key.IPv6 })
		})
	}
}

// lastStay forwards at frontends of a kind to the endpoints that they had last, where none is left.
func lastStay(k plan.Kind) func(*changes) {
	return func(c *changes) {
		had := map[plan.Key]plan.Route{}
		routes(func(f *plan.Frontend, r *plan.Route) {
			switch was, ok := had[f.Key]; {
			case f.Kind != k:
			case r.Action == plan.Forward:
				had[f.Key] = *r
			case ok:
				*r = was
			}
		})(c)
	}
}
