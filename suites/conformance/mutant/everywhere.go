package mutant

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// everywhereMutations are right wherever one looks first, and wrong at another kind of address, by the other protocol
// or for what comes later.
func everywhereMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"hairpin-of-first-endpoints-only": hairpinOfFirst,
		"hairpin-of-terminating-not-masqueraded": routes(func(_ *plan.Frontend, r *plan.Route) {
			if r.Terminating {
				notLocal(r.Endpoints)
			}
		}),
		"target-of-first-port-for-all-at-load-balancer":          targetOfFirst(plan.LoadBalancer),
		"target-of-first-port-for-all-at-external-ip":            targetOfFirst(plan.ExternalIP),
		"source-ranges-not-for-later-ports":                      rangesOfFirstFrontends,
		"source-ranges-outlive-their-service":                    rangesOutlive,
		"source-ranges-of-eight-addresses-and-more-admit-nobody": ranges(longOnly),
		"local-not-followed-with-affinity-at-node-port": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort && f.Affinity > 0 {
				clusterOutside(f)
			}
		}),
		"node-ports-at-cluster-ips":                          nodePortsAtClusterIPs,
		"cluster-ip-for-udp-made-anew-with-each-change":      remade(atBy(plan.ClusterIP, objects.UDP)),
		"node-ports-for-udp-made-anew-with-each-change":      remade(atBy(plan.NodePort, objects.UDP)),
		"ports-of-udp-beyond-15-not-served-at-node-port":     portsBeyond(15, atBy(plan.NodePort, objects.UDP)),
		"ports-of-tcp-beyond-15-not-served-at-load-balancer": portsBeyond(15, atBy(plan.LoadBalancer, objects.TCP)),
	}
}

// hairpinOfFirst masquerades what those endpoints of a frontend send to themselves that were there first.
func hairpinOfFirst(c *changes) {
	first := map[plan.Key]map[netip.Addr]bool{}
	routes(func(f *plan.Frontend, r *plan.Route) {
		if len(r.Endpoints) == 0 {
			return
		}
		known := first[f.Key]
		if known == nil {
			known = map[netip.Addr]bool{}
			first[f.Key] = known
			for _, e := range r.Endpoints {
				known[e.Addr] = true
			}
		}
		for i, e := range r.Endpoints {
			r.Endpoints[i].Local = e.Local && known[e.Addr]
		}
	})(c)
}

// targetOfFirst leads all ports at each address of a kind to the target port that an endpoint has for the first.
func targetOfFirst(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			target := map[[2]netip.Addr]uint16{} // at an address, of an endpoint
			for i := range s.Frontends {
				f := &s.Frontends[i]
				if f.Kind != k {
					continue
				}
				eachRoute(f, func(r *plan.Route) {
					for j := range r.Endpoints {
						at := [2]netip.Addr{f.Key.Addr, r.Endpoints[j].Addr}
						if target[at] == 0 {
							target[at] = r.Endpoints[j].Port
						}
						r.Endpoints[j].Port = target[at]
					}
				})
			}
		})
	}
}

// rangesOfFirstFrontends holds a Service's source ranges for those of its frontends that were there when it got them.
func rangesOfFirstFrontends(c *changes) {
	held := map[objects.Name]map[plan.Key]bool{}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		fresh := map[plan.Key]bool{}
		for i := range s.Frontends {
			f := &s.Frontends[i]
			if !f.Restricted {
				continue
			}
			if fresh[f.Key] = true; held[name] != nil && !held[name][f.Key] {
				f.Restricted, f.Sources = false, nil
			}
		}
		switch {
		case len(fresh) == 0:
			delete(held, name)
		case held[name] == nil:
			held[name] = fresh
		}
	})
}

// rangesOutlive holds source ranges of a Service for the next one that has the address and the port.
func rangesOutlive(c *changes) {
	type had struct {
		by     objects.Name
		ranges []netip.Prefix
	}
	at := map[plan.Key]had{}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		for i := range s.Frontends {
			f := &s.Frontends[i]
			switch was, ok := at[f.Key]; {
			case f.Kind != plan.LoadBalancer:
			case f.Restricted:
				at[f.Key] = had{name, f.Sources}
			case ok && was.by != name:
				restrict(f, slices.Clone(was.ranges))
			case ok:
				delete(at, f.Key)
			}
		}
	})
}

// longOnly leaves out networks of more than a few addresses.
func longOnly(p netip.Prefix) []netip.Prefix {
	if p.Addr().BitLen()-p.Bits() >= 3 && p.Bits() > 0 {
		return nil
	}
	return []netip.Prefix{p}
}

// nodePortsAtClusterIPs serves node ports at the Service's ClusterIP too.
func nodePortsAtClusterIPs(c *changes) {
	further(func(_ plan.Service, f *plan.Frontend) bool {
		is := f.Kind == plan.NodePort
		f.Kind, f.Inside, f.Key.Addr = plan.ClusterIP, nil, f.Group.Addr
		return is
	})(c)
}

// further serves, beside each frontend of a Service, what is made of a copy of it, if anything.
func further(made func(of plan.Service, f *plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			for _, f := range s.Frontends {
				has := func(o plan.Frontend) bool { return o.Key == f.Key }
				if made(*s, &f) && !slices.ContainsFunc(s.Frontends, has) {
					s.Frontends = append(s.Frontends, f)
				}
			}
		})
	}
}

// atBy are the frontends of a kind and a protocol.
func atBy(k plan.Kind, protocol objects.Protocol) func(*plan.Frontend) bool {
	return func(f *plan.Frontend) bool { return f.Kind == k && f.Key.Protocol == protocol }
}

// portsBeyond leaves out what a Service has of some frontends beyond so many, at each of its addresses.
func portsBeyond(most int, of func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			n := map[plan.Key]int{} // by family and address
			s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
				if !of(&f) {
					return false
				}
				at := plan.Key{IPv6: f.Key.IPv6, Addr: f.Key.Addr}
				n[at]++
				return n[at] > most
			})
		})
	}
}
