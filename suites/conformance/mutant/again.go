package mutant

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// againMutations are right for what is there first, or alone, and wrong for what comes later, comes back, is more or has
// the name of another.
func againMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"hairpin-of-later-endpoints-dropped-at-load-balancer": laterHairpinDropped(at(plan.LoadBalancer)),
		"hairpin-of-later-endpoints-dropped-at-external-ip":   laterHairpinDropped(at(plan.ExternalIP)),
		"hairpin-of-later-endpoints-dropped-at-node-port":     laterHairpinDropped(at(plan.NodePort)),
		"hairpin-of-later-endpoints-dropped-under-local":      laterHairpinDropped(underInternalLocal),
		"load-balancer-address-not-served-again":              notServedAgain(plan.LoadBalancer),
		"external-ip-not-served-again":                        notServedAgain(plan.ExternalIP),
		"node-port-not-served-again":                          notServedAgain(plan.NodePort),
		"hcnp-of-namesakes-mixed-up":                          namesakesMixedUp,
		"datagrams-without-checksum-lost":                     beside(lost(unsummed()...)),
		"endpoints-beyond-64-not-used-for-udp":                onlyFirst(64, atBy(plan.ClusterIP, objects.UDP)),
		"endpoints-beyond-64-not-used-at-node-port":           onlyFirst(64, atBy(plan.NodePort, objects.TCP)),
		"serving-without-ready-as-terminating": endpoints(func(e *discoveryv1.Endpoint) {
			if !isOr(e.Conditions.Ready, true) && is(e.Conditions.Serving) {
				e.Conditions.Terminating = new(true)
			}
		}),
		"longer-affinity-timeout-not-noticed": shortestTimeout,
		"affinity-of-eight-endpoints-at-most": frontends(func(f *plan.Frontend) {
			if len(f.Outside.Endpoints) > 8 {
				f.Affinity = 0
			}
		}),
		"taint-at-start-not-heeded":      taintAtStartIgnored,
		"slice-ports-of-any-protocol":    slicePortsByName,
		"zone-hints-by-their-beginning":  zonesByPrefix,
		"hints-of-same-zone-alone-count": hintsOfSameZoneAlone,
		"hints-ignored-with-affinity-at-node-port": hintsIgnored(func(f *plan.Frontend) bool {
			return f.Kind == plan.NodePort && f.Affinity > 0
		}),
		"load-balancer-not-where-it-is-under-local": ownLeftOut(func(f *plan.Frontend) bool {
			return f.Kind == plan.LoadBalancer && f.Inside != nil
		}),
		"first-endpoint-preferred-under-local": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Kind == plan.NodePort && r == &f.Outside && f.Inside != nil && len(r.Endpoints) > 1 {
				r.Endpoints = append(slices.Repeat(r.Endpoints[:1], 5), r.Endpoints...)
			}
		}),
	}
}

// laterHairpinDropped drops at some frontends what an endpoint of the node sends to itself that was not among the
// first there.
func laterHairpinDropped(of func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		first := map[plan.Key][]plan.Endpoint{}
		hairpinDropped(func(f *plan.Frontend) bool {
			all := endpointsOf(*f)
			if first[f.Key] == nil && len(all) > 0 {
				first[f.Key] = all
			}
			return of(f) && !slices.ContainsFunc(all, func(e plan.Endpoint) bool {
				return e.Local && slices.ContainsFunc(first[f.Key], e.SamePlace)
			})
		})(c)
	}
}

// notServedAgain serves no address or node port of a kind that a Service had, gave up and has again.
func notServedAgain(k plan.Kind) func(*changes) {
	type front struct {
		of objects.Name
		at plan.Key
	}
	return func(c *changes) {
		had, gone := map[front]bool{}, map[front]bool{}
		c.plan = services(func(name objects.Name, s *plan.Service) {
			for at := range had {
				if at.of == name && !slices.ContainsFunc(s.Frontends, func(f plan.Frontend) bool { return f.Key == at.at }) {
					gone[at] = true
				}
			}
			s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
				at := front{name, f.Key}
				had[at] = had[at] || f.Kind == k
				return f.Kind == k && gone[at]
			})
		})
	}
}

// namesakesMixedUp has Services of one name in several namespaces answer like the one with the most.
func namesakesMixedUp(c *changes) {
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		for name, hc := range checks {
			for other, o := range checks {
				if name.Name == other.Name {
					hc.IPv4, hc.IPv6 = max(hc.IPv4, o.IPv4), max(hc.IPv6, o.IPv6)
				}
			}
			checks[name] = hc
		}
	}
}

// unsummed are translated datagrams that have no checksum.
func unsummed() []expr.Any {
	return append(translated(),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 6, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0, 0}},
	)
}

// onlyFirst leaves some frontends so many of their endpoints.
func onlyFirst(many int, of func(*plan.Frontend) bool) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if of(f) {
			r.Endpoints = r.Endpoints[:min(many, len(r.Endpoints))]
		}
	})
}

// shortestTimeout leaves each frontend the shortest affinity timeout that it ever had.
func shortestTimeout(c *changes) {
	shortest := map[plan.Key]time.Duration{}
	frontends(func(f *plan.Frontend) {
		if f.Affinity == 0 {
			delete(shortest, f.Key)
			return
		}
		if had, ok := shortest[f.Key]; ok {
			f.Affinity = min(had, f.Affinity)
		}
		shortest[f.Key] = f.Affinity
	})(c)
}

// taintAtStartIgnored heeds no taint until its node was without one.
func taintAtStartIgnored(c *changes) {
	free := map[string]bool{} // by node
	nodeOf(func(n *corev1.Node) {
		free[n.Name] = free[n.Name] || len(n.Spec.Taints) == 0
		if !free[n.Name] {
			n.Spec.Taints = nil
		}
	})(c)
}

// slicePortsByName takes the ports of slices for those of their Service that have the name, whatever the protocol.
func slicePortsByName(c *changes) {
	var protocols sync.Map // by Service and name
	c.object = func(o runtime.Object) {
		switch o := o.(type) {
		case *corev1.Service:
			for _, p := range o.Spec.Ports {
				protocols.Store(o.Name+" "+p.Name, p.Protocol)
			}
		case *discoveryv1.EndpointSlice:
			for i, p := range o.Ports {
				if is, ok := protocols.Load(o.Labels[discoveryv1.LabelServiceName] + " " + ptr.Deref(p.Name, "")); ok {
					o.Ports[i].Protocol = new(is.(corev1.Protocol))
				}
			}
		}
	}
}

// zonesByPrefix takes hints for zones whose names begin with the node's for hints for that.
func zonesByPrefix(c *changes) {
	var zone atomic.Value // the node's
	c.object = func(o runtime.Object) {
		switch o := o.(type) {
		case *corev1.Node:
			zone.Store(o.Labels[corev1.LabelTopologyZone])
		case *discoveryv1.EndpointSlice:
			begin, known := zone.Load().(string)
			for _, e := range o.Endpoints {
				for i, z := range ptr.Deref(e.Hints, discoveryv1.EndpointHints{}).ForZones {
					if known && begin != "" && strings.HasPrefix(z.Name, begin) {
						e.Hints.ForZones[i].Name = begin
					}
				}
			}
		}
	}
}

// hintsOfSameZoneAlone heeds the hints of those Services alone that ask for endpoints of the same zone by that name.
func hintsOfSameZoneAlone(c *changes) {
	var others sync.Map // Services
	c.object = func(o runtime.Object) {
		switch o := o.(type) {
		case *corev1.Service:
			others.Store(o.Name, ptr.Deref(o.Spec.TrafficDistribution, "") == corev1.ServiceTrafficDistributionPreferClose)
		case *discoveryv1.EndpointSlice:
			if is, _ := others.Load(o.Labels[discoveryv1.LabelServiceName]); is == true {
				for i := range o.Endpoints {
					o.Endpoints[i].Hints = nil
				}
			}
		}
	}
}
