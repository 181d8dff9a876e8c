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
	gone     []plan.Endpoint // members of was alone
}

// changed decides whether a list is changed in place or is a new one: in place while most of it
// stays and whoever uses it does with it what he did before.
func changed(was list, eps []plan.Endpoint, same bool, number func() uint32) listChange {
	c := listChange{was: was, now: list{number: was.number, eps: eps}}
	if len(eps) == 0 {
		c.now.number = 0
		return c
	}
	differ := max(len(was.eps), len(eps)) - min(len(was.eps), len(eps))
	for i := range min(len(was.eps), len(eps)) {
		if was.eps[i] != eps[i] {
			differ++
		}
	}
	if differ == 0 {
		return c
	}
	if was.number == 0 || !same || 2*differ > max(len(was.eps), 4) {
		c.now.number = number()
		return c
	}
	stays := make(map[place]bool, len(eps))
	for _, e := range eps {
		stays[toPlace(e)] = true
	}
	for _, e := range was.eps {
		if !stays[toPlace(e)] {
			c.gone = append(c.gone, e)
		}
	}
	return c
}

func (c listChange) inPlace() bool { return c.was.number == c.now.number }

// before writes what the new frontend needs: members first, so that a client is remembered.
func (c listChange) before(w *writer, m *plumbMaps) {
	had := map[place]plan.Endpoint{}
	if c.inPlace() {
		for _, e := range c.was.eps {
			had[toPlace(e)] = e
		}
	}
	for _, e := range c.now.eps {
		at := toPlace(e)
		switch old, is := had[at]; {
		case !is:
			fresh(w, m.PlumbMembers, memberKey(c.now.number, at), uint32(toFlags(e)))
		case old != e:
			put(w, m.PlumbMembers, memberKey(c.now.number, at), uint32(toFlags(e)))
		}
	}
	// What is new comes before what changes: the latter never fails for want of room.
	for i, e := range c.now.eps {
		if !c.inPlace() || i >= len(c.was.eps) {
			fresh(w, m.PlumbSlots, plumbSlotKey{List: c.now.number, Index: uint32(i)}, slotValue(e))
		}
	}
}

// replace changes slots in place: from here on packets go there.
func (c listChange) replace(w *writer, m *plumbMaps) {
	if !c.inPlace() {
		return
	}
	for i := range min(len(c.was.eps), len(c.now.eps)) {
		if c.was.eps[i] != c.now.eps[i] {
			put(w, m.PlumbSlots, plumbSlotKey{List: c.now.number, Index: uint32(i)}, slotValue(c.now.eps[i]))
		}
	}
}

// after deletes what no frontend leads to any more. A packet that still meant to finds nothing
// there, and looks at the frontend again.
func (c listChange) after(w *writer, m *plumbMaps) {
	gone, from := c.gone, len(c.now.eps)
	if !c.inPlace() {
		gone, from = c.was.eps, 0
	}
	for i := from; i < len(c.was.eps); i++ {
		drop(w, m.PlumbSlots, plumbSlotKey{List: c.was.number, Index: uint32(i)})
	}
	for _, e := range gone {
		drop(w, m.PlumbMembers, memberKey(c.was.number, toPlace(e)))
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
		drop(w, m.PlumbSources, r.key(p))
	}
}
