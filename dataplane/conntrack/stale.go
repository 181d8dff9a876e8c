package conntrack

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// place is a destination, or an endpoint.
type place struct {
	protocol objects.Protocol
	at       netip.AddrPort
}

// table is the node's frontends whose flows are watched.
type table struct {
	tcp    bool // TCP as well as UDP; const
	node   plan.Node
	fronts map[plan.Key]*plan.Frontend // no wildcards
	users  map[netip.AddrPort]int      // TCP frontends by endpoint, as often as they name it
}

func newTable(tcp bool) *table {
	return &table{tcp: tcp, fronts: map[plan.Key]*plan.Frontend{}, users: map[netip.AddrPort]int{}}
}

func (t *table) watches(k plan.Key) bool {
	return k.Protocol == objects.UDP || t.tcp && k.Protocol == objects.TCP
}

// find is the owner of a destination, in the order of plan.Resolve.
func (t *table) find(p place) *plan.Frontend {
	key := plan.Key{IPv6: p.at.Addr().Is6(), Addr: p.at.Addr(), Protocol: p.protocol, Port: p.at.Port()}
	if f := t.fronts[key]; f != nil {
		return f
	}
	if slices.Contains(t.node.Addrs, p.at.Addr()) {
		key.Addr = netip.Addr{}
		return t.fronts[key]
	}
	return nil
}

// served are the endpoints that a flow of a frontend may have: those of its
// routes and those that drain. May name one twice.
func served(f *plan.Frontend) iter.Seq[netip.AddrPort] {
	return func(yield func(netip.AddrPort) bool) {
		if f == nil {
			return
		}
		all := [][]plan.Endpoint{f.Outside.Endpoints, f.Draining, nil}
		if f.Inside != nil {
			all[2] = f.Inside.Endpoints
		}
		for _, eps := range all {
			for _, e := range eps {
				if !yield(netip.AddrPortFrom(e.Addr, e.Port)) {
					return
				}
			}
		}
	}
}

func serves(f *plan.Frontend, at netip.AddrPort) bool {
	for a := range served(f) {
		if a == at {
			return true
		}
	}
	return false
}

// claim is who owns a destination before and after a change, nil for nobody.
type claim struct{ was, now *plan.Frontend }

// doubts tells which flows of a claim may be stale: all of its destination's, or
// only those with certain endpoints. A frontend that only gained endpoints has
// none: what its flows had before, they may have now.
func (c claim) doubts() (all bool, lost []netip.AddrPort) {
	if c.was == nil || c.now == nil || opens(c.was, c.now) || narrows(c.was, c.now) {
		return c.was != c.now, nil
	}
	for a := range served(c.was) {
		if !serves(c.now, a) && !slices.Contains(lost, a) {
			lost = append(lost, a)
		}
	}
	return false, lost
}

// opens tells whether a route forwards that did not: packets may have passed
// untranslated until now, and conntrack would keep it so.
func opens(was, now *plan.Frontend) bool {
	forwards := func(r *plan.Route) bool { return r.Action == plan.Forward }
	return forwards(&now.Outside) && !forwards(&was.Outside) || forwards(inside(now)) && !forwards(inside(was))
}

func inside(f *plan.Frontend) *plan.Route {
	if f.Inside != nil {
		return f.Inside
	}
	return &f.Outside
}

func narrows(was, now *plan.Frontend) bool {
	return now.Restricted && !(was.Restricted && slices.Equal(was.Sources, now.Sources))
}

// stale is the rule of the package comment for UDP.
func (c claim) stale(f flow) bool {
	switch {
	case c.now != nil:
		return !serves(c.now, f.from) || c.now.Restricted && !contains(c.now.Sources, f.src.Addr())
	case c.was != nil:
		return f.from != f.dst && serves(c.was, f.from)
	}
	return false
}

func contains(ps []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// work is what a change leaves to be done in the kernel's table.
type work struct {
	table  *table
	claims map[place]claim         // UDP: destinations that may have stale flows; TCP: gone ones
	gone   map[netip.AddrPort]bool // TCP: endpoints that no frontend has any more
	// full: every UDP flow is judged, also those of destinations that did not
	// change, and refused are the ClusterIPs, whose other ports nobody serves.
	full    bool
	refused map[netip.Addr]bool
}

// change brings the table from old to new. A nil old stands for what the table
// held; new is then complete. undo takes it back.
func (t *table) change(old, new *plan.Plan) (w work, undo func()) {
	w = work{table: t, claims: map[place]claim{}, gone: map[netip.AddrPort]bool{}, full: old == nil}
	if w.full {
		w.refused = clusterIPs(new)
		old = t.plan()
	}
	fronts := t.differences(plan.Diff(old, new))
	node := t.node
	touched := t.touched(fronts, node.Addrs, new.Node.Addrs)
	for p := range touched {
		touched[p] = claim{was: t.find(p)}
	}
	before := t.replace(new.Node, fronts)
	for p, c := range touched {
		c.now = t.find(p)
		w.note(p, c)
	}
	for _, f := range before {
		if f != nil && f.Key.Protocol == objects.TCP {
			for a := range served(f) {
				if t.users[a] == 0 {
					w.gone[a] = true
				}
			}
		}
	}
	return w, func() { t.replace(node, before) }
}

// note keeps a claim that has doubts.
func (w *work) note(p place, c claim) {
	if p.protocol == objects.TCP {
		if c.now == nil {
			w.claims[p] = c // its connections are to be known as ours still
		}
		return
	}
	if all, lost := c.doubts(); all || len(lost) > 0 {
		w.claims[p] = c
	}
}

func (t *table) differences(c plan.Changes) map[plan.Key]*plan.Frontend {
	out := map[plan.Key]*plan.Frontend{}
	for _, f := range c.Set {
		if t.watches(f.Key) {
			out[f.Key] = &f
		}
	}
	for _, k := range c.Gone {
		if t.watches(k) {
			out[k] = nil
		}
	}
	return out
}

// touched are the destinations that a change may give to somebody else. A node
// address that comes or goes is one for every node port there is, whether or not
// its Service is part of the change.
func (t *table) touched(fronts map[plan.Key]*plan.Frontend, old, new []netip.Addr) map[place]claim {
	out := map[place]claim{}
	add := func(k plan.Key, addrs ...netip.Addr) {
		for _, a := range addrs {
			if a.Is6() == k.IPv6 {
				out[place{k.Protocol, netip.AddrPortFrom(a, k.Port)}] = claim{}
			}
		}
	}
	for k := range fronts {
		if k.IsNodePort() {
			add(k, old...)
			add(k, new...)
		} else {
			add(k, k.Addr)
		}
	}
	var moved []netip.Addr
	for _, a := range slices.Concat(old, new) {
		if slices.Contains(old, a) != slices.Contains(new, a) {
			moved = append(moved, a)
		}
	}
	if len(moved) > 0 {
		for k := range t.fronts {
			if k.IsNodePort() {
				add(k, moved...)
			}
		}
	}
	return out
}

// replace puts frontends in place, nil for none, and returns what was there.
func (t *table) replace(node plan.Node, fronts map[plan.Key]*plan.Frontend) map[plan.Key]*plan.Frontend {
	before := make(map[plan.Key]*plan.Frontend, len(fronts))
	t.node = node
	for k, f := range fronts {
		before[k] = t.fronts[k]
		if k.Protocol == objects.TCP {
			t.count(before[k], -1)
			t.count(f, 1)
		}
		t.fronts[k] = f
		if f == nil {
			delete(t.fronts, k)
		}
	}
	return before
}

func (t *table) count(f *plan.Frontend, by int) {
	for a := range served(f) {
		t.users[a] += by
		if t.users[a] == 0 {
			delete(t.users, a)
		}
	}
}

// plan is what the table holds, as one Service.
func (t *table) plan() *plan.Plan {
	var s plan.Service
	for _, f := range t.fronts {
		s.Frontends = append(s.Frontends, *f)
	}
	return &plan.Plan{Node: t.node, Services: map[objects.Name]plan.Service{{}: s}}
}

func clusterIPs(p *plan.Plan) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			if f.Key.IsWildcard() {
				out[f.Key.Addr] = true
			}
		}
	}
	return out
}
