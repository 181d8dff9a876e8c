package nftables

import (
	"net/netip"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// settle orders wanted endpoints so that as few slots as possible change: what
// stays keeps its slot if that still exists, the rest fills the holes.
func settle(old, want []plan.Endpoint) []plan.Endpoint {
	if samePlaces(old, want) {
		return want
	}
	out := make([]plan.Endpoint, len(want))
	filled := make([]bool, len(want))
	place := make(map[netip.AddrPort]int, len(old))
	for i, e := range old {
		if i < len(want) {
			place[netip.AddrPortFrom(e.Addr, e.Port)] = i
		}
	}
	var rest []plan.Endpoint
	for _, e := range want {
		if i, ok := place[netip.AddrPortFrom(e.Addr, e.Port)]; ok && !filled[i] {
			out[i], filled[i] = e, true
			continue
		}
		rest = append(rest, e)
	}
	for i := range out {
		if !filled[i] {
			out[i], rest = rest[0], rest[1:]
		}
	}
	return out
}

func samePlaces(a, b []plan.Endpoint) bool {
	if len(a) != len(b) {
		return len(a) == 0
	}
	for i := range a {
		if a[i].Addr != b[i].Addr || a[i].Port != b[i].Port {
			return false
		}
	}
	return true
}

// settleFrontend settles both routes after those of the frontend's last state.
func settleFrontend(old, f plan.Frontend) plan.Frontend {
	f.Outside.Endpoints = settle(old.Outside.Endpoints, f.Outside.Endpoints)
	if f.Inside == nil {
		return f
	}
	in := *f.Inside
	var was []plan.Endpoint
	if old.Inside != nil {
		was = old.Inside.Endpoints
	}
	in.Endpoints = settle(was, in.Endpoints)
	f.Inside = &in
	return f
}

// slotPart is the part that holds a frontend's slots, as the rules compute it
// (toSlot).
func slotPart(front string) int { return int(uint64(jhash(front, hashSeed)) * slotParts >> 32) }

// partElements lead to the chains of the parts.
func (f family) partElements() []Element {
	var out []Element
	for v := viewServices; v <= views; v++ {
		for part := range slotParts {
			out = append(out, Element{elementID{v6: f.v6, set: v.parts(), key: numberBytes(uint32(part))}, v.slotsChain(part)})
		}
	}
	return out
}
