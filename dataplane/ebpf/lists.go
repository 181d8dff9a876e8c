package ebpf

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// A list of endpoints under a number, as the maps have it: slots 0 to n-1, each with an endpoint,
// and the same endpoints as members. Zero is the list without any.
type list struct {
	number uint32
	eps    []plan.Endpoint // in the order of their slots
}

// listChange takes a list to what it is to be. What may be written before the frontend is, and
// what only after it: a packet finds an endpoint of the list as it was or as it is to be.
type listChange struct {
	was, now list
	at       []int           // slots of both whose endpoint changes in place
	fresh    []plan.Endpoint // members that now has and was has not
	flagged  []plan.Endpoint // members of both of which something else is known
	gone     []plan.Endpoint // members that was has and now has not
}

// changed decides whether a list is changed in place or is a new one: in place while most of it
// stays and whoever uses it does with it what he did before. It costs a comparison, and else by
// what changes.
func changed(was list, eps []plan.Endpoint, same bool, number func() uint32) listChange {
	c := listChange{was: was, now: list{number: was.number, eps: eps}}
	both := min(len(was.eps), len(eps))
	for i := range both {
		if was.eps[i] != eps[i] {
			c.at = append(c.at, i)
		}
	}
	differ := len(c.at) + max(len(was.eps), len(eps)) - both
	switch {
	case len(eps) == 0:
		c.now.number, c.gone = 0, was.eps
		return c
	case differ == 0:
		return c
	case was.number == 0 || !same || 2*differ > max(len(was.eps), 4):
		c.now.number, c.at, c.fresh, c.gone = number(), nil, eps, was.eps
		return c
	}
	left, came := slices.Clone(was.eps[both:]), slices.Clone(eps[both:])
	for _, i := range c.at {
		left, came = append(left, was.eps[i]), append(came, eps[i])
	}
	had := byPlace(left)
	for _, e := range came {
		at := toPlace(e)
		if old, is := had[at]; !is {
			c.fresh = append(c.fresh, e)
		} else if old != e {
			c.flagged = append(c.flagged, e)
		}
		delete(had, at)
	}
	for _, e := range had {
		c.gone = append(c.gone, e)
	}
	return c
}

func byPlace(eps []plan.Endpoint) map[place]plan.Endpoint {
	out := make(map[place]plan.Endpoint, len(eps))
	for _, e := range eps {
		out[toPlace(e)] = e
	}
	return out
}

func (c listChange) inPlace() bool { return c.was.number == c.now.number }

// before writes what is new and the frontend needs: members first, so that a client is remembered.
func (c listChange) before(w *writer, m *plumbMaps) {
	for _, e := range c.fresh {
		fresh(w, m.PlumbMembers, memberKey(c.now.number, toPlace(e)), uint32(toFlags(e)))
	}
	from := 0
	if c.inPlace() {
		from = min(len(c.was.eps), len(c.now.eps))
	}
	for i := from; i < len(c.now.eps); i++ {
		fresh(w, m.PlumbSlots, plumbSlotKey{List: c.now.number, Index: uint32(i)}, slotValue(c.now.eps[i]))
	}
}

// replace changes members and slots in place: from here on packets go there. It never fails for
// want of room, and is not taken back.
func (c listChange) replace(w *writer, m *plumbMaps) {
	for _, e := range c.flagged {
		put(w, m.PlumbMembers, memberKey(c.now.number, toPlace(e)), uint32(toFlags(e)))
	}
	for _, i := range c.at {
		put(w, m.PlumbSlots, plumbSlotKey{List: c.now.number, Index: uint32(i)}, slotValue(c.now.eps[i]))
	}
}

// after deletes what no frontend leads to any more: in a while, for packets that are on their way.
// What goes from a list in place goes at once: connections of UDP and clients are to move.
func (c listChange) after(w *writer, m *plumbMaps) {
	from, remove := 0, later[plumbMemberKey]
	if c.inPlace() {
		from, remove = len(c.now.eps), drop[plumbMemberKey]
	}
	for i := from; i < len(c.was.eps); i++ {
		later(w, m.PlumbSlots, plumbSlotKey{List: c.was.number, Index: uint32(i)})
	}
	for _, e := range c.gone {
		remove(w, m.PlumbMembers, memberKey(c.was.number, toPlace(e)))
	}
}

func memberKey(number uint32, at place) plumbMemberKey {
	return plumbMemberKey{List: number, Addr: at.addr, Port: at.port}
}

func slotValue(e plan.Endpoint) plumbEndpoint {
	return plumbEndpoint{Addr: toAddr(e.Addr), Port: swapped(e.Port), Flags: toFlags(e)}
}

// ranges are source ranges under a number: always a new one when they change.
type ranges struct {
	number   uint32
	prefixes []netip.Prefix
}

func (r ranges) equal(p []netip.Prefix) bool { return slices.Equal(r.prefixes, p) }

func (r ranges) key(p netip.Prefix) plumbSourceKey {
	return plumbSourceKey{Bits: 32 + bits(p), Sources: r.number, Addr: toAddr(p.Addr())}
}

func (r ranges) write(w *writer, m *plumbMaps) {
	for _, p := range r.prefixes {
		fresh(w, m.PlumbSources, r.key(p), uint32(1))
	}
}

func (r ranges) remove(w *writer, m *plumbMaps) {
	for _, p := range r.prefixes {
		later(w, m.PlumbSources, r.key(p))
	}
}
