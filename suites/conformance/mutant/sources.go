package mutant

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// sourceMutations serve some clients and not others.
func sourceMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"cluster-ip-not-from-nodes":        notFrom(plan.ClusterIP, ofNodes),
		"cluster-ip-not-from-pods":         notFrom(plan.ClusterIP, ofPods),
		"external-ip-not-from-outside":     notFrom(plan.ExternalIP, ofOutside),
		"hairpin-not-masqueraded":          routes(func(_ *plan.Frontend, r *plan.Route) { notLocal(r.Endpoints) }),
		"hairpin-dropped-at-cluster-ip":    hairpinDropped(func(f *plan.Frontend) bool { return f.Kind == plan.ClusterIP }),
		"hairpin-dropped-at-external-ip":   hairpinDropped(func(f *plan.Frontend) bool { return f.Kind == plan.ExternalIP }),
		"hairpin-dropped-at-load-balancer": hairpinDropped(func(f *plan.Frontend) bool { return f.Kind == plan.LoadBalancer }),
		"hairpin-dropped-for-udp":          hairpinDropped(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"last-address-of-range-refused":    ranges(func(p netip.Prefix) []netip.Prefix { return without([]netip.Prefix{p}, last(p)) }),
		"upper-half-of-range-refused":      ranges(func(p netip.Prefix) []netip.Prefix { lower, _ := halves(p); return []netip.Prefix{lower} }),
		"source-ranges-as-single-addresses": ranges(func(p netip.Prefix) []netip.Prefix {
			return []netip.Prefix{netip.PrefixFrom(p.Addr(), p.Addr().BitLen())}
		}),
	}
}

// client is a group of clients: the networks it is from are those of a node, and whether all others
// are meant instead.
type client func(plan.Node) (of []netip.Prefix, others bool)

func ofPods(n plan.Node) ([]netip.Prefix, bool) { return n.LocalPods, false }

func ofNodes(n plan.Node) ([]netip.Prefix, bool) { return single(n.Addrs), false }

func ofOutside(n plan.Node) ([]netip.Prefix, bool) {
	return append(single(n.Addrs), n.LocalPods...), true
}

func single(addrs []netip.Addr) (out []netip.Prefix) {
	for _, a := range addrs {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

// notFrom drops what a group of clients sends to addresses of a kind.
func notFrom(k plan.Kind, who client) func(*changes) {
	return func(c *changes) {
		c.plan = func(p *plan.Plan) {
			of, others := who(p.Node)
			services(func(_ objects.Name, s *plan.Service) {
				for i := range s.Frontends {
					f := &s.Frontends[i]
					if f.Kind != k || f.Key.IsWildcard() {
						continue
					}
					mine := slices.DeleteFunc(slices.Clone(of), func(p netip.Prefix) bool { return p.Addr().Is6() != f.Key.IPv6 })
					if !others {
						left := everything(f.Key.IPv6)
						for _, p := range mine {
							left = outsideOf(left, p)
						}
						mine = left
					}
					restrict(f, mine)
				}
			})(p)
		}
	}
}

// restrict leaves a frontend to some sources.
func restrict(f *plan.Frontend, to []netip.Prefix) {
	slices.SortFunc(to, netip.Prefix.Compare)
	f.Restricted, f.Sources = true, to
}

// hairpinDropped drops what an endpoint of the node sends to itself.
func hairpinDropped(at func(*plan.Frontend) bool) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		local := slices.DeleteFunc(endpointsOf(*f), func(e plan.Endpoint) bool { return !e.Local || e.Host })
		slices.SortFunc(local, plan.Endpoint.Compare)
		local = slices.Compact(local)                  // of both routes
		if !at(f) || len(local) != 1 || f.Restricted { // one of several would be dropped by them all
			return
		}
		restrict(f, without(everything(f.Key.IPv6), local[0].Addr))
	})
}

// endpointsOf are those of a frontend's routes; who is in both is there twice.
func endpointsOf(f plan.Frontend) (out []plan.Endpoint) {
	eachRoute(&f, func(r *plan.Route) { out = append(out, r.Endpoints...) })
	return out
}

func notLocal(of []plan.Endpoint) {
	for i := range of {
		of[i].Local = false
	}
}

// ranges changes the networks that may use load balancer addresses.
func ranges(f func(netip.Prefix) []netip.Prefix) func(*changes) {
	return frontends(func(fr *plan.Frontend) {
		if !fr.Restricted {
			return
		}
		var out []netip.Prefix
		for _, p := range fr.Sources {
			if p.IsSingleIP() {
				out = append(out, p)
			} else {
				out = append(out, f(p)...)
			}
		}
		restrict(fr, out)
	})
}

func everything(v6 bool) []netip.Prefix {
	if v6 {
		return []netip.Prefix{netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
}

// without are networks with the exception of an address.
func without(from []netip.Prefix, a netip.Addr) []netip.Prefix {
	return outsideOf(from, netip.PrefixFrom(a, a.BitLen()))
}

// outsideOf are networks with the exception of one that lies in one of them.
func outsideOf(from []netip.Prefix, but netip.Prefix) (out []netip.Prefix) {
	for _, p := range from {
		for p.Bits() < but.Bits() && p.Contains(but.Addr()) {
			lower, upper := halves(p)
			if lower.Contains(but.Addr()) {
				out, p = append(out, upper), lower
			} else {
				out, p = append(out, lower), upper
			}
		}
		if !p.Contains(but.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// halves of a network that is more than one address.
func halves(p netip.Prefix) (lower, upper netip.Prefix) {
	text := p.Masked().Addr().AsSlice()
	text[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	above, _ := netip.AddrFromSlice(text)
	return netip.PrefixFrom(p.Masked().Addr(), p.Bits()+1), netip.PrefixFrom(above, p.Bits()+1)
}

// last address of a network.
func last(p netip.Prefix) netip.Addr {
	for !p.IsSingleIP() {
		_, p = halves(p)
	}
	return p.Addr()
}
