package plan

import (
	"encoding/binary"
	"slices"
)

// Settle gives the endpoints of a frontend's routes the order that they have in old, which
// may be nothing: what stays keeps its slot if that still exists, the rest fills the holes.
// So a change of one endpoint of many is a change of one slot, or two, in a backend that
// keeps them by their number.
func Settle(old, f Frontend) Frontend {
	return make(settled).frontend(old, f)
}

// settled are lists of endpoints that have been settled, by what they were settled against:
// the frontends of one port share theirs, and go on sharing them. The first is zero for a list
// that has been settled, against whatever: a frontend that is new shares it.
type settled map[[2]list][]Endpoint

// list is which list of endpoints one is.
type list struct {
	first *Endpoint
	n     int
}

func listOf(eps []Endpoint) list { return list{&eps[0], len(eps)} }

// service settles all frontends of a Service. Both have them in order of their keys.
func (s settled) service(old, now Service) Service {
	var fresh []int
	for i, f := range now.Frontends {
		at, had := slices.BinarySearchFunc(old.Frontends, f.Key, func(o Frontend, k Key) int { return o.Key.Compare(k) })
		if !had {
			fresh = append(fresh, i)
			continue
		}
		now.Frontends[i] = s.frontend(old.Frontends[at], f)
	}
	for _, i := range fresh {
		now.Frontends[i] = s.frontend(Frontend{}, now.Frontends[i])
	}
	return now
}

func (s settled) frontend(old, f Frontend) Frontend {
	f.Outside.Endpoints = s.endpoints(old.Outside.Endpoints, f.Outside.Endpoints)
	if f.Inside == nil {
		return f
	}
	in := *f.Inside
	var was []Endpoint
	if old.Inside != nil {
		was = old.Inside.Endpoints
	}
	in.Endpoints = s.endpoints(was, in.Endpoints)
	f.Inside = &in
	return f
}

func (s settled) endpoints(old, want []Endpoint) []Endpoint {
	if len(want) == 0 {
		return want
	}
	shared := [2]list{{}, listOf(want)}
	if len(old) == 0 {
		if out := s[shared]; out != nil {
			return out
		}
		return want
	}
	at := [2]list{listOf(old), listOf(want)}
	out, done := s[at]
	if !done {
		out = settle(old, want)
		s[at], s[shared] = out, out
	}
	return out
}

// settle costs by the number of endpoints that are not where they were. want is sorted, so
// these are all between the ranks of one that came and of one that went.
func settle(old, want []Endpoint) []Endpoint {
	moved := func(i int) bool { return i >= len(old) || !want[i].SamePlace(old[i]) }
	var at []int // the places that are to be filled
	for i := range want {
		if moved(i) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return want
	}
	slot := make(map[place]int32, len(at))
	for _, i := range at {
		if i < len(old) {
			slot[old[i].place()] = int32(i)
		}
	}
	out := slices.Clone(want)
	filled := make([]bool, len(want))
	var rest []Endpoint
	for _, i := range at {
		e := want[i]
		if to, ok := slot[e.place()]; ok && !filled[to] {
			out[to], filled[to] = e, true
			continue
		}
		rest = append(rest, e)
	}
	for _, i := range at {
		if !filled[i] {
			out[i], rest = rest[0], rest[1:]
		}
	}
	return out
}

// SamePlace tells whether two endpoints are one place, whatever is known of it.
func (e Endpoint) SamePlace(o Endpoint) bool { return e.Addr == o.Addr && e.Port == o.Port }

// place is where an endpoint is, in words that are quick to look up.
type place [3]uint64

func (e Endpoint) place() place {
	b := e.Addr.As16()
	return place{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:]), uint64(e.Port)}
}

// Sorted are endpoints in an order that does not depend on what was before.
func Sorted(eps []Endpoint) []Endpoint {
	if slices.IsSortedFunc(eps, Endpoint.Compare) {
		return eps
	}
	return slices.SortedFunc(slices.Values(eps), Endpoint.Compare)
}
