package mutant

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// besideMutations are wrong where things of one kind stand beside each other or take each other's place:
// Services at an address, ports of a Service, slices, families; and about Services that an agent finds
// when it starts.
func besideMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"source-ranges-hold-for-the-address":      rangesOfAddress,
		"addresses-stay-with-their-first-service": addressesStay,
		"load-balancer-address-no-external-ip":    oneKindOnly,
		"external-ips-on-nodes-not-served":        onNodesLost(plan.ExternalIP),
		"external-ips-of-first-family-only":       firstFamilyOnly(plan.ExternalIP),
		"source-ranges-of-first-family-only":      ofSecondFamily(func(f *plan.Frontend) { f.Restricted, f.Sources = false, nil }),
		"external-local-of-first-family-only":     ofSecondFamily(clusterOutside),
		"renamed-ports-lose-their-cluster-ip": renamed(
			func(p corev1.ServicePort) int32 { return p.Port },
			func(p *corev1.ServicePort) { p.Port += 20000 },
		),
		"renamed-ports-lose-their-node-port": renamed(
			func(p corev1.ServicePort) int32 { return p.NodePort },
			func(p *corev1.ServicePort) { p.NodePort = 0 },
		),
		"swapped-ports-lost":                        swappedLost,
		"slices-without-ports-have-those-of-before": emptyPortsFilled,
		"slices-of-first-manager-only":              firstManagerOnly,
		"external-name-served-at-external-ips":      externalNameServed,
		"endpoints-of-a-node-share-its-share":       nodesFirst,
		"endpoints-beyond-256-not-used":             onlyFirst(256, func(*plan.Frontend) bool { return true }),
		"services-beyond-256-not-served":            servicesBeyond(256),
		"services-beyond-100-at-start-not-heard-of": servicesAtStartBeyond(100),
		"source-ranges-at-start-not-held":           rangesAtStartLost,
		"health-checks-at-start-not-served":         checksAtStartLost,
		"port-names-beyond-15-characters-cut": servicesOf(func(s *corev1.Service) {
			eachPort(s, func(p *corev1.ServicePort) { p.Name = p.Name[:min(15, len(p.Name))] })
		}),
		"ports-with-application-protocol-not-served": servicesOf(func(s *corev1.Service) {
			s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.AppProtocol != nil })
		}),
	}
}

func eachPort(s *corev1.Service, f func(*corev1.ServicePort)) {
	for i := range s.Spec.Ports {
		f(&s.Spec.Ports[i])
	}
}

// rangesOfAddress holds the source ranges of one Service for all that share the address of its load balancer.
func rangesOfAddress(c *changes) {
	of := map[netip.Addr][]netip.Prefix{}
	frontends(func(f *plan.Frontend) {
		if f.Kind != plan.LoadBalancer {
			return
		}
		if f.Restricted {
			of[f.Key.Addr] = f.Sources
		} else if ranges, ok := of[f.Key.Addr]; ok {
			restrict(f, slices.Clone(ranges))
		}
	})(c)
}

// addressesStay serves external addresses, and node ports, for the Service alone that had them first.
func addressesStay(c *changes) {
	owner := map[plan.Key]objects.Name{}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			if _, ok := owner[f.Key]; !ok {
				owner[f.Key] = name
			}
			return f.Kind != plan.ClusterIP && owner[f.Key] != name
		})
	})
}

// oneKindOnly does not serve as an external IP what was the address of a load balancer.
func oneKindOnly(c *changes) {
	balancers := map[netip.Addr]bool{}
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			if f.Kind == plan.LoadBalancer {
				balancers[f.Key.Addr] = true
			}
			return f.Kind == plan.ExternalIP && balancers[f.Key.Addr]
		})
	})
}

// onNodesLost leaves out frontends of a kind whose address is one of the node.
func onNodesLost(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = func(p *plan.Plan) {
			services(func(_ objects.Name, s *plan.Service) {
				s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
					return f.Kind == k && slices.Contains(p.Node.Addrs, f.Key.Addr)
				})
			})(p)
		}
	}
}

// ofSecondFamily changes the frontends for IPv6 of Services of both families.
func ofSecondFamily(f func(*plan.Frontend)) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			both := slices.ContainsFunc(s.Frontends, func(o plan.Frontend) bool { return !o.Key.IPv6 })
			for i := range s.Frontends {
				if both && s.Frontends[i].Key.IPv6 {
					f(&s.Frontends[i])
				}
			}
		})
	}
}

// clusterOutside has policy Cluster hold where external policy Local does.
func clusterOutside(f *plan.Frontend) {
	if f.Inside != nil {
		f.Outside, f.Inside = *f.Inside, nil
		f.Outside.Masquerade = plan.MasqAlways
	}
}

// renamed loses something of each port that got another name and kept a number.
func renamed(number func(corev1.ServicePort) int32, lose func(*corev1.ServicePort)) func(*changes) {
	type port struct {
		service string
		number  int32
	}
	return func(c *changes) {
		names := map[port]string{}
		servicesOf(func(s *corev1.Service) {
			eachPort(s, func(p *corev1.ServicePort) {
				key := port{string(s.UID), number(*p)}
				if _, known := names[key]; !known {
					names[key] = p.Name
				}
				if names[key] != p.Name {
					lose(p)
				}
			})
		})(c)
	}
}

// swappedLost loses ports that have the number now that another port, which is still there, had first.
func swappedLost(c *changes) {
	first := map[string]map[int32]string{}
	servicesOf(func(s *corev1.Service) {
		of, names := first[string(s.UID)], map[string]bool{}
		if of == nil {
			of = map[int32]string{}
			first[string(s.UID)] = of
		}
		eachPort(s, func(p *corev1.ServicePort) { names[p.Name] = true })
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			if of[p.Port] == "" {
				of[p.Port] = p.Name
			}
			return of[p.Port] != p.Name && names[of[p.Port]]
		})
	})(c)
}

// emptyPortsFilled takes a slice without ports for one with those that it had.
func emptyPortsFilled(c *changes) {
	had := map[string][]discoveryv1.EndpointPort{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		if len(s.Ports) == 0 {
			s.Ports = had[string(s.UID)]
		}
		had[string(s.UID)] = slices.Clone(s.Ports)
	})(c)
}

// firstManagerOnly uses the slices of a Service that whoever made the first of them makes.
func firstManagerOnly(c *changes) {
	first := map[string]string{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		of, by := s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy]
		if first[of] == "" {
			first[of] = by
		}
		if first[of] != by {
			s.Endpoints = nil
		}
	})(c)
}

// externalNameServed serves Services of type ExternalName at their external IPs.
func externalNameServed(c *changes) {
	servicesOf(func(s *corev1.Service) {
		if s.Spec.Type != corev1.ServiceTypeExternalName || len(s.Spec.ExternalIPs) == 0 {
			return
		}
		s.Spec.Type, s.Spec.IPFamilies = corev1.ServiceTypeClusterIP, []corev1.IPFamily{corev1.IPv4Protocol}
		if strings.Contains(s.Spec.ExternalIPs[0], ":") {
			s.Spec.IPFamilies[0] = corev1.IPv6Protocol
		}
		s.Spec.ClusterIPs = []string{unusedOf(s)}
	})(c)
}

// nodesFirst chooses a node first and then one of its endpoints, as far as the networks of pods tell nodes
// apart.
func nodesFirst(c *changes) {
	routes(func(_ *plan.Frontend, r *plan.Route) {
		on, most := map[netip.Prefix][]plan.Endpoint{}, 0
		for _, e := range r.Endpoints {
			node := netip.PrefixFrom(e.Addr, map[bool]int{true: 24, false: 64}[e.Addr.Is4()]).Masked()
			on[node] = append(on[node], e)
			most = max(most, len(on[node]))
		}
		for _, some := range on {
			r.Endpoints = append(r.Endpoints, slices.Repeat(some, most/len(some)-1)...)
		}
	})(c)
}

// servicesAtStartBeyond hears of so many Services at most until there is a first plan, and of no other one of
// those that are there then.
func servicesAtStartBeyond(many int) func(*changes) {
	return func(c *changes) {
		var started atomic.Bool
		c.plan = func(*plan.Plan) { started.Store(true) }
		heard := map[types.UID]bool{}
		c.hears = func(_ watch.EventType, o runtime.Object) bool {
			s, ok := o.(*corev1.Service)
			if !ok {
				return true
			}
			if _, known := heard[s.UID]; !known {
				heard[s.UID] = started.Load() || len(heard) < many
			}
			return heard[s.UID]
		}
	}
}

// rangesAtStartLost holds no source ranges of the Services that are there when the agent starts.
func rangesAtStartLost(c *changes) {
	started := false
	c.plan = func(p *plan.Plan) {
		if !started {
			started = true
			services(func(_ objects.Name, s *plan.Service) {
				for i := range s.Frontends {
					s.Frontends[i].Restricted, s.Frontends[i].Sources = false, nil
				}
			})(p)
		}
	}
}

// checksAtStartLost serves no healthCheckNodePort of the Services that are there when the agent starts.
func checksAtStartLost(c *changes) {
	var found map[objects.Name]bool
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		if found == nil {
			found = map[objects.Name]bool{}
			for name := range checks {
				found[name] = true
			}
		}
		for name := range found {
			delete(checks, name)
		}
	}
}
