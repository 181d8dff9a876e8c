package ebpf

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// front is a frontend as the maps have it.
type front struct {
	plan    plan.Frontend // its endpoints in the order of their slots
	value   plumbFrontend
	out, in list
	drains  list // members only
	ranges  ranges
}

// value is the entry of a frontend, but for the numbers.
func value(f plan.Frontend) plumbFrontend {
	v := plumbFrontend{
		Affinity: uint32(f.Affinity / time.Second), ServiceKind: uint8(f.Kind),
		Group: toAddr(f.Group.Addr), GroupPort: swapped(f.Group.Port), GroupProto: uint8(f.Group.Protocol),
	}
	v.Routes[0] = routeValue(f.Outside)
	if f.Inside != nil {
		v.Flags |= frontendHasInside
		v.Routes[1] = routeValue(*f.Inside)
	}
	if f.Restricted {
		v.Flags |= frontendRestricted
	}
	return v
}

func routeValue(r plan.Route) plumbRoute {
	return plumbRoute{Action: uint8(slices.Index(actions(), r.Action)), Masquerade: uint8(r.Masquerade)}
}

// numbered fills in the lists.
func (f *front) numbered(v plumbFrontend) plumbFrontend {
	v.Routes[0].List, v.Routes[0].N = f.out.number, uint32(len(f.out.eps))
	v.Routes[1].List, v.Routes[1].N = f.in.number, uint32(len(f.in.eps))
	v.Draining, v.Sources = f.drains.number, f.ranges.number
	return v
}

// table is the frontends in the maps and the classes of their addresses, as far as they are known.
// Every method leaves each packet with its frontend as it was or as it is to be.
type table struct {
	maps    *plumbMaps
	w       *writer
	fronts  map[plan.Key]*front
	classes map[netip.Addr]uint32 // in the map
	exact   map[netip.Addr]int    // frontends of an address
	rest    map[netip.Addr]bool   // whose rest is refused
	node    map[netip.Addr]bool   // where node ports are served
	room    uint32                // for addresses but the node's
	last    uint32                // the highest number of a list or of source ranges
}

func (t *table) number() uint32 { t.last++; return t.last }

// set brings a frontend up to date. refused says that a map is full: then it is as it was.
func (t *table) set(f plan.Frontend) (refused error) {
	t.w.begin()
	claimed := t.claim(f.Key)
	if f.Key.IsWildcard() {
		t.classify(f.Key.Addr)
	} else {
		t.bring(f)
	}
	if !full(t.w.err) {
		return nil
	}
	refused, t.w.err = t.w.err, nil
	if claimed {
		t.unclaim(f.Key)
	}
	t.w.err = t.w.back()
	return refused
}

func (t *table) bring(f plan.Frontend) {
	was, had := t.fronts[f.Key]
	if !had {
		was = &front{}
	}
	f = plan.Settle(was.plan, f)
	now := &front{plan: f, ranges: was.ranges, drains: list{was.drains.number, f.Draining}}
	v := value(f)
	same := had && was.numbered(v) == was.value
	var inside []plan.Endpoint
	if f.Inside != nil {
		inside = f.Inside.Endpoints
	}
	out, in := changed(was.out, f.Outside.Endpoints, same, t.number), changed(was.in, inside, same, t.number)
	now.out, now.in = out.now, in.now
	// What may find no room comes before what cannot be taken back.
	if had && !f.Key.IsNodePort() {
		t.classify(f.Key.Addr)
	}
	drains := t.prepare(now, was)
	out.before(t.w, t.maps)
	in.before(t.w, t.maps)
	for _, c := range []listChange{drains, out, in} {
		c.replace(t.w, t.maps)
	}
	if now.value = now.numbered(v); !had {
		fresh(t.w, t.maps.PlumbFronts, toKey(f.Key), now.value)
	} else if now.value != was.value {
		put(t.w, t.maps.PlumbFronts, toKey(f.Key), now.value)
	}
	if !had && !f.Key.IsNodePort() {
		t.classify(f.Key.Addr)
	}
	if t.w.err != nil {
		return
	}
	t.fronts[f.Key] = now
	out.after(t.w, t.maps)
	in.after(t.w, t.maps)
	t.leave(now, was)
}

// prepare writes source ranges and the endpoints that drain, but for those of the latter of which
// something else is known: these are what is still to be replaced.
func (t *table) prepare(now, was *front) (drains listChange) {
	want := distinct(now.plan.Sources)
	if !now.plan.Restricted {
		want = nil
	}
	if !was.ranges.equal(want) || now.plan.Restricted && was.ranges.number == 0 {
		now.ranges = ranges{prefixes: want}
		if now.plan.Restricted {
			now.ranges.number = t.number()
		}
		now.ranges.write(t.w, t.maps)
	}
	if len(now.drains.eps) == 0 {
		now.drains.number = 0
		return drains
	}
	if now.drains.number == 0 {
		now.drains.number = t.number()
	}
	drains.now, drains.was = now.drains, was.drains
	before := byPlace(was.drains.eps)
	for _, e := range now.drains.eps {
		if old, is := before[toPlace(e)]; !is {
			fresh(t.w, t.maps.PlumbMembers, memberKey(now.drains.number, toPlace(e)), uint32(toFlags(e)))
		} else if old != e {
			drains.flagged = append(drains.flagged, e)
		}
	}
	return drains
}

// leave deletes what was of the frontend's and is not now.
func (t *table) leave(now, was *front) {
	if was.ranges.number != now.ranges.number {
		was.ranges.remove(t.w, t.maps)
	}
	stays, remove := map[place]bool{}, later[plumbMemberKey]
	if was.drains.number == now.drains.number {
		remove = drop[plumbMemberKey]
		for _, e := range now.drains.eps {
			stays[toPlace(e)] = true
		}
	}
	for _, e := range was.drains.eps {
		if !stays[toPlace(e)] {
			remove(t.w, t.maps.PlumbMembers, memberKey(was.drains.number, toPlace(e)))
		}
	}
}

// gone takes a frontend away: first its address, by which packets come to it.
func (t *table) gone(k plan.Key) {
	was, had := t.fronts[k]
	if !had && !k.IsWildcard() {
		return // refused, or of a protocol that is not served: its address never had it
	}
	t.unclaim(k)
	if !k.IsNodePort() {
		t.classify(k.Addr)
	}
	if !had {
		return
	}
	drop(t.w, t.maps.PlumbFronts, toKey(k))
	drop(t.w, t.maps.PlumbTallies, toKey(k))
	for _, l := range []list{was.out, was.in} {
		changed(l, nil, false, t.number).after(t.w, t.maps)
	}
	t.leave(&front{}, was)
	if t.w.err == nil {
		delete(t.fronts, k)
	}
}

// claim counts a frontend for its address, if it is not counted yet.
func (t *table) claim(k plan.Key) bool {
	switch {
	case k.IsNodePort():
		return false
	case k.IsWildcard():
		had := t.rest[k.Addr]
		t.rest[k.Addr] = true
		return !had
	case t.fronts[k] != nil:
		return false
	}
	t.exact[k.Addr]++
	return true
}

// unclaim takes a claim back.
func (t *table) unclaim(k plan.Key) {
	switch {
	case k.IsNodePort():
	case k.IsWildcard():
		delete(t.rest, k.Addr)
	case t.exact[k.Addr] == 1:
		delete(t.exact, k.Addr)
	case t.exact[k.Addr] > 1:
		t.exact[k.Addr]--
	}
}

// classify brings the class of an address up to date. It is not taken back: of a frontend that is
// new it is the last that is written.
func (t *table) classify(a netip.Addr) {
	var class uint32
	if t.rest[a] {
		class |= addressClusterIP
	}
	if t.node[a] {
		class |= addressNode
	}
	if t.exact[a] > 0 {
		class |= addressFrontends
	}
	was := t.classes[a]
	switch {
	case class == was:
		return
	case was == 0 && !t.node[a] && t.others() >= int(t.room):
		t.w.err = cmp.Or(t.w.err, error(fullMap{name(t.maps.PlumbAddrs), t.room}))
	case class == 0:
		drop(t.w, t.maps.PlumbAddrs, toAddr(a))
	default:
		put(t.w, t.maps.PlumbAddrs, toAddr(a), class)
	}
	if t.w.err != nil {
		return
	}
	if t.classes[a] = class; class == 0 {
		delete(t.classes, a)
	}
}

// others are how many addresses there are but the node's, which have room of their own.
func (t *table) others() int {
	n := len(t.classes)
	for a := range t.node {
		if t.classes[a] != 0 {
			n--
		}
	}
	return n
}

// setNode says where node ports are served; it returns the addresses that are to be classified,
// first those that make room.
func (t *table) setNode(addrs []netip.Addr) []netip.Addr {
	was := t.node
	t.node = map[netip.Addr]bool{}
	for _, a := range addrs {
		t.node[a] = true
	}
	return slices.Concat(slices.Collect(maps.Keys(was)), addrs)
}
