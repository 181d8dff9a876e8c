package conntrack

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

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
	users  map[netip.AddrPort]int      // TCP frontends by endpoint of any state, as often as they name it
	aside  map[plan.Key]error          // those that the kernel refused; their rules are as they were
}

func newTable(tcp bool) *table {
	return &table{tcp: tcp, fronts: map[plan.Key]*plan.Frontend{}, users: map[netip.AddrPort]int{}}
}

func (t *table) watches(k plan.Key) bool {
	return k.Protocol == objects.UDP || t.tcp && k.Protocol == objects.TCP
}

// find is the owner of a destination, in the order of plan.Resolve.
func (t *table) find(p place) *plan.Frontend {
	for _, k := range t.keys(p) {
		if f := t.fronts[k]; f != nil {
			return f
		}
	}
	return nil
}

// isAside tells whether the owner of a destination is one that the kernel refused.
func (t *table) isAside(p place) bool { return t.isAmong(t.aside, p) }

func (t *table) isAmong(refused map[plan.Key]error, p place) bool {
	if len(refused) == 0 {
		return false
	}
	for _, k := range t.keys(p) {
		if aside := refused[k] != nil; aside || t.fronts[k] != nil {
			return aside
		}
	}
	return false
}

// keys are those that the owner of a destination may have, the first owner's first; one
// that is not is nobody's.
func (t *table) keys(p place) [2]plan.Key {
	key := plan.Key{IPv6: p.at.Addr().Is6(), Addr: p.at.Addr(), Protocol: p.protocol, Port: p.at.Port()}
	keys := [2]plan.Key{key}
	if slices.Contains(t.node.Addrs, p.at.Addr()) {
		key.Addr = netip.Addr{}
		keys[1] = key
	}
	return keys
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

// named are all endpoints of a frontend that are in a slice, whether or not they serve.
func named(f *plan.Frontend) iter.Seq[netip.AddrPort] {
	return func(yield func(netip.AddrPort) bool) {
		for a := range served(f) {
			if !yield(a) {
				return
			}
		}
		if f == nil {
			return
		}
		for _, e := range f.Unready {
			if !yield(netip.AddrPortFrom(e.Addr, e.Port)) {
				return
			}
		}
	}
}

// places are endpoints to be looked up. Most frontends have few.
type places map[netip.AddrPort]bool

func (p places) add(more iter.Seq[netip.AddrPort]) {
	for a := range more {
		p[a] = true
	}
}

func placesOf(f *plan.Frontend) places {
	out := places{}
	out.add(served(f))
	return out
}

// claim is who owns a destination before and after a change, nil for nobody, and which
// of its flows are in doubt since. It may stand for several changes in a row.
type claim struct {
	was, now *plan.Frontend   // was: before the first of them
	between  places           // endpoints of those between was and now
	all      bool             // all flows of the destination are in doubt
	lost     []netip.AddrPort // or those of these endpoints only; UDP
	at       time.Time        // of the last of them
	number   int              // and which it was
	since    *claim           // of those of them that came after a walk had begun; nil: all or none
}

// newClaim finds out which flows may be stale. A frontend that only gained endpoints has
// none: what its flows had before, they may have now.
func newClaim(was, now *plan.Frontend) claim {
	c := claim{was: was, now: now}
	if was == nil || now == nil || opens(was, now) || narrows(was, now) {
		c.all = was != now
		return c
	}
	have := placesOf(now)
	for a := range served(was) {
		if !have[a] {
			have[a] = true // named once
			c.lost = append(c.lost, a)
		}
	}
	return c
}

// after is the claim of a change that follows another, whose flows nobody has looked at.
func (c claim) after(first claim) claim {
	out := claim{was: first.was, now: c.now, between: first.between, all: first.all || c.all, at: c.at, number: c.number}
	if out.between == nil {
		out.between = places{}
	}
	out.between.add(served(c.was))
	out.between.add(maps.Keys(c.between))
	out.lost = append(slices.Clone(first.lost), slices.DeleteFunc(slices.Clone(c.lost), func(a netip.AddrPort) bool { return slices.Contains(first.lost, a) })...)
	return out
}

// had tells whether the destination led to an endpoint before the last change.
func (c claim) had(at netip.AddrPort) bool {
	if c.between[at] {
		return true
	}
	for a := range served(c.was) {
		if a == at {
			return true
		}
	}
	return false
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
func (w *work) stale(c claim, f flow) bool {
	if c.now != nil {
		return !w.serves(c.now, f.from) || c.now.Restricted && !contains(c.now.Sources, f.src.Addr())
	}
	return f.from != f.dst && c.had(f.from)
}

// serves is asked for each flow of the table.
func (w *work) serves(f *plan.Frontend, at netip.AddrPort) bool {
	have, known := w.serving[f]
	if !known {
		have = placesOf(f)
		w.serving[f] = have
	}
	return have[at]
}

func contains(ps []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// differences are the frontends that changed, nil for those that are gone.
func (t *table) differences(old, new *plan.Plan) map[plan.Key]*plan.Frontend {
	out := map[plan.Key]*plan.Frontend{}
	c := plan.Diff(old, new)
	for _, f := range c.Set {
		if t.watches(f.Key) {
			out[f.Key] = f
		}
	}
	for _, k := range c.Gone {
		if t.watches(k) {
			out[k] = nil
		}
	}
	if t.tcp { // which endpoints are unready is no difference to a packet
		for k, f := range plan.Index(new) {
			if was := t.fronts[k]; was != nil && out[k] == nil && k.Protocol == objects.TCP && !slices.Equal(was.Unready, f.Unready) {
				out[k] = f
			}
		}
	}
	return out
}

// taken are the frontends that the kernel refused until now.
func (t *table) taken(refused map[plan.Key]error) (out []plan.Key) {
	for k := range t.aside {
		if refused[k] == nil && t.watches(k) {
			out = append(out, k)
		}
	}
	return out
}

// setAside takes note of what the kernel refused, and adds to fronts what that leaves of TCP:
// the frontends as they were, which name the endpoints that they would have.
func (t *table) setAside(fronts map[plan.Key]*plan.Frontend, new *plan.Plan, refused map[plan.Key]error) {
	t.aside = refused
	if len(refused) == 0 || !t.tcp {
		return
	}
	for k, f := range plan.Index(new) {
		if refused[k] == nil || k.Protocol != objects.TCP {
			continue
		}
		held := plan.Frontend{Kind: f.Kind, Key: k}
		if was := t.fronts[k]; was != nil {
			held = *was
		}
		held.Unready = nil
		for a := range named(f) {
			held.Unready = append(held.Unready, plan.Endpoint{Addr: a.Addr(), Port: a.Port()})
		}
		fronts[k] = &held
	}
}

// touched are the destinations that a change may give to somebody else. A node
// address that comes or goes is one for every node port there is, whether or not
// its Service is part of the change; so is a frontend that the kernel has taken at last.
func (t *table) touched(fronts map[plan.Key]*plan.Frontend, taken []plan.Key, old, new []netip.Addr) map[place]bool {
	out := map[place]bool{}
	add := func(k plan.Key, addrs ...netip.Addr) {
		for _, a := range addrs {
			if a.Is6() == k.IPv6 {
				out[place{k.Protocol, netip.AddrPortFrom(a, k.Port)}] = true
			}
		}
	}
	for _, k := range slices.AppendSeq(taken, maps.Keys(fronts)) {
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
	for a := range named(f) {
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
