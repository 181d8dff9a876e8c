package mutant

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// liveFrontMutations do not follow one change of an object that lives at one kind of address or for one
// protocol.
func liveFrontMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"load-balancer-made-anew-with-each-change":    remade(at(plan.LoadBalancer)),
		"external-ip-made-anew-with-each-change":      remade(at(plan.ExternalIP)),
		"ports-added-later-not-at-load-balancer":      portsAddedLostAt(plan.LoadBalancer),
		"removed-ports-kept-at-load-balancer":         portsKeptAt(plan.LoadBalancer),
		"ports-added-later-not-at-external-ip":        portsAddedLostAt(plan.ExternalIP),
		"removed-ports-kept-at-external-ip":           portsKeptAt(plan.ExternalIP),
		"load-balancer-stays-local":                   staysLocal,
		"external-policy-changes-not-noticed-for-udp": clusterKept(objects.UDP),
		"internal-local-holds-at-external-ip":         internalHoldsAt(plan.ExternalIP),
		"internal-local-holds-at-load-balancer":       internalHoldsAt(plan.LoadBalancer),
		"source-ranges-at-first-address-only":         rangesAtFirst,
		"source-ranges-beyond-32-ignored": servicesOf(func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = s.Spec.LoadBalancerSourceRanges[:min(32, len(s.Spec.LoadBalancerSourceRanges))]
		}),
		"ingress-kept-for-udp":          keptFor(objects.UDP),
		"ip-mode-ignored-for-udp":       modeIgnoredForUDP,
		"load-balancer-not-where-it-is": ownLeftOut(at(plan.LoadBalancer)),
		"load-balancer-not-from-itself": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.LoadBalancer && !f.Restricted {
				restrict(f, without(everything(f.Key.IPv6), f.Key.Addr))
			}
		}),
		"affinity-never-ends-at-node-port":                 neverEnds(at(plan.NodePort)),
		"affinity-never-ends-at-load-balancer":             neverEnds(at(plan.LoadBalancer)),
		"affinity-never-ends-for-udp":                      neverEnds(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"affinity-changes-not-noticed-at-load-balancer":    affinityOnce(at(plan.LoadBalancer)),
		"affinity-changes-not-noticed-for-udp":             affinityOnce(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"target-port-changes-not-noticed-at-load-balancer": targetsOnce(at(plan.LoadBalancer)),
		"target-port-changes-not-noticed-at-node-port":     targetsOnce(at(plan.NodePort)),
	}
}

// portsAddedLostAt serves at addresses of a kind the ports alone that a Service had when it was made.
func portsAddedLostAt(k plan.Kind) func(*changes) {
	return func(c *changes) {
		had := map[objects.Name]map[plan.Key]bool{} // by the ports' ClusterIPs
		c.plan = services(func(name objects.Name, s *plan.Service) {
			if had[name] == nil {
				had[name] = map[plan.Key]bool{}
				for _, f := range s.Frontends {
					had[name][f.Group] = true
				}
			}
			s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool { return f.Kind == k && !had[name][f.Group] })
		})
	}
}

// portsKeptAt serves at each address of a kind all ports that a Service ever had there, while it has the
// address.
func portsKeptAt(k plan.Kind) func(*changes) {
	return func(c *changes) {
		had := map[objects.Name]map[plan.Key]plan.Frontend{}
		c.plan = services(func(name objects.Name, s *plan.Service) {
			now := map[plan.Key]plan.Frontend{}
			for _, f := range s.Frontends {
				if f.Kind == k {
					now[f.Key] = f
				}
			}
			for key, f := range had[name] {
				mine := func(o plan.Frontend) bool { return o.Kind == k && o.Key.Addr == key.Addr }
				if _, ok := now[key]; !ok && slices.ContainsFunc(s.Frontends, mine) {
					s.Frontends = append(s.Frontends, f)
				}
			}
			if had[name] == nil {
				had[name] = map[plan.Key]plan.Frontend{}
			}
			maps.Copy(had[name], now)
		})
	}
}

// keptFor serves each load balancer address that a Service ever had, for a protocol.
func keptFor(protocol objects.Protocol) func(*changes) {
	return func(c *changes) {
		had := map[objects.Name]map[plan.Key]plan.Frontend{}
		c.plan = services(func(name objects.Name, s *plan.Service) {
			if had[name] == nil {
				had[name] = map[plan.Key]plan.Frontend{}
			}
			now := map[plan.Key]bool{}
			for _, f := range s.Frontends {
				if now[f.Key] = true; f.Kind == plan.LoadBalancer && f.Key.Protocol == protocol {
					had[name][f.Key] = f
				}
			}
			for key, f := range had[name] {
				if !now[key] {
					s.Frontends = append(s.Frontends, f)
				}
			}
		})
	}
}

// modeIgnoredForUDP serves addresses in mode Proxy for UDP.
func modeIgnoredForUDP(c *changes) {
	var proxy sync.Map // by address
	ingress(func(in *corev1.LoadBalancerIngress) bool {
		if in.IPMode != nil && *in.IPMode == corev1.LoadBalancerIPModeProxy {
			proxy.Store(in.IP, true)
			in.IPMode = nil
		}
		return true
	})(c)
	dropped(func(f plan.Frontend) bool {
		_, is := proxy.Load(f.Key.Addr.String())
		return is && f.Key.Protocol != objects.UDP
	})(c)
}

// staysLocal leads to the node's own endpoints alone at load balancer addresses that once did.
func staysLocal(c *changes) {
	was := map[plan.Key]bool{}
	frontends(func(f *plan.Frontend) {
		switch {
		case f.Kind != plan.LoadBalancer:
		case f.Inside != nil:
			was[f.Key] = true
		case was[f.Key]:
			f.Outside.Endpoints = slices.DeleteFunc(f.Outside.Endpoints, func(e plan.Endpoint) bool { return !e.Local })
			if len(f.Outside.Endpoints) == 0 {
				f.Outside = plan.Route{Action: plan.Drop}
			}
		}
	})(c)
}

// clusterKept leads to the endpoints of all nodes at external addresses of a protocol that once did.
func clusterKept(protocol objects.Protocol) func(*changes) {
	return func(c *changes) {
		was := map[plan.Key]bool{}
		frontends(func(f *plan.Frontend) {
			switch {
			case f.Kind == plan.ClusterIP || f.Key.Protocol != protocol:
			case f.Inside == nil:
				was[f.Key] = true
			case was[f.Key]:
				f.Outside, f.Inside = *f.Inside, nil
				f.Outside.Masquerade = plan.MasqAlways
			}
		})(c)
	}
}

// internalHoldsAt leads to the endpoints that internalTrafficPolicy=Local leaves at addresses of a kind too.
func internalHoldsAt(k plan.Kind) func(*changes) {
	return func(c *changes) {
		var mu sync.Mutex // guards local, which a watch writes and the Loop reads
		local := map[string]bool{}
		servicesOf(func(s *corev1.Service) {
			mu.Lock()
			defer mu.Unlock()
			p := s.Spec.InternalTrafficPolicy
			local[s.Name] = p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal
		})(c)
		c.plan = services(func(name objects.Name, s *plan.Service) {
			mu.Lock()
			defer mu.Unlock()
			internal := map[plan.Key]plan.Route{}
			for _, f := range s.Frontends {
				if f.Kind == plan.ClusterIP && local[name.Name] {
					internal[f.Key] = f.Outside
				}
			}
			for i, f := range s.Frontends {
				r, ok := internal[f.Group]
				if !ok || f.Kind != k {
					continue
				}
				r.Endpoints, r.Masquerade = slices.Clone(r.Endpoints), f.Outside.Masquerade
				s.Frontends[i].Outside, s.Frontends[i].Inside = r, nil
			}
		})
	}
}

// rangesAtFirst holds source ranges at the first load balancer address of a Service alone.
func rangesAtFirst(c *changes) {
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		first := slices.IndexFunc(s.Frontends, func(f plan.Frontend) bool { return f.Restricted })
		for i, f := range s.Frontends {
			if f.Restricted && f.Key.Addr != s.Frontends[first].Key.Addr {
				s.Frontends[i].Restricted, s.Frontends[i].Sources = false, nil
			}
		}
	})
}

// ownLeftOut leaves out those of some frontends whose address is on one of the node's links.
func ownLeftOut(of func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		c.plan = func(p *plan.Plan) {
			own, err := net.InterfaceAddrs()
			if err != nil {
				return // it is found when the plan changes next
			}
			services(func(_ objects.Name, s *plan.Service) {
				s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
					return of(&f) && slices.ContainsFunc(own, func(a net.Addr) bool {
						at, err := netip.ParsePrefix(a.String())
						return err == nil && at.Addr() == f.Key.Addr
					})
				})
			})(p)
		}
	}
}

// neverEnds has clients remembered for a day at some frontends with affinity.
func neverEnds(of func(*plan.Frontend) bool) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		if f.Affinity > 0 && of(f) {
			f.Affinity = 24 * time.Hour
			f.Group = f.Key // or others of the port would say when it ends
		}
	})
}

// affinityOnce leaves some frontends the affinity that they had first.
func affinityOnce(of func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		first := map[plan.Key]time.Duration{}
		frontends(func(f *plan.Frontend) {
			if _, ok := first[f.Key]; !ok {
				first[f.Key] = f.Affinity
			}
			if of(f) {
				f.Affinity = first[f.Key]
			}
		})(c)
	}
}

// targetsOnce leaves the endpoints of some frontends the ports that they had first.
func targetsOnce(of func(*plan.Frontend) bool) func(*changes) {
	type target struct {
		key  plan.Key
		addr netip.Addr
	}
	return func(c *changes) {
		first := map[target]uint16{}
		routes(func(f *plan.Frontend, r *plan.Route) {
			for i, e := range r.Endpoints {
				at := target{f.Key, e.Addr}
				if first[at] == 0 {
					first[at] = e.Port
				}
				if of(f) {
					r.Endpoints[i].Port = first[at]
				}
			}
		})(c)
	}
}
