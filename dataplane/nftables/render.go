package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Element is one element of a set or map of one table, in the kernel's bytes.
// Everything that differs from Service to Service is elements.
type Element struct {
	id  elementID
	val string // data of a map's element
}

type elementID struct {
	v6  bool
	set setID
	key string
	end bool // the end of an interval
}

// nodeElements renders what all Services share.
func nodeElements(n plan.Node) []Element {
	var out []Element
	for _, a := range n.Addrs {
		out = append(out, Element{id: elementID{v6: a.Is6(), set: setNodeAddrs, key: string(a.AsSlice())}})
	}
	out = append(out, intervals(setLocalPods, n.PodCIDRs)...)
	return append(out, intervals(setClusterPods, n.ClusterCIDRs)...)
}

// intervals renders prefixes as the kernel keeps them, a start and an element
// past the end. Overlaps are refused by the kernel, so a prefix inside another
// is left out.
func intervals(set setID, prefixes []netip.Prefix) []Element {
	var out []Element
	for i, p := range prefixes {
		inside := slices.ContainsFunc(prefixes[:i], func(o netip.Prefix) bool { return o.Overlaps(p) })
		if inside {
			continue
		}
		v6 := p.Addr().Is6()
		out = append(out, Element{id: elementID{v6: v6, set: set, key: string(p.Addr().AsSlice())}})
		if end, ok := pastEnd(p); ok {
			out = append(out, Element{id: elementID{v6: v6, set: set, key: string(end.AsSlice()), end: true}})
		}
	}
	return out
}

// pastEnd is the first address after a prefix, if there is one.
func pastEnd(p netip.Prefix) (netip.Addr, bool) {
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		switch keep := p.Bits() - 8*i; {
		case keep <= 0:
			b[i] = 0xff
		case keep < 8:
			b[i] |= 0xff >> keep
		}
	}
	last, _ := netip.AddrFromSlice(b)
	next := last.Next()
	return next, next.IsValid()
}

// frontendElements renders one frontend, except for its hairpins, which are
// shared with other frontends. The endpoints' order is the slots' order.
func frontendElements(f plan.Frontend) []Element {
	key := frontendKey(f.Key)
	v6 := f.Key.IPv6
	out := routeElements(v6, outsideView(f.Key), key, f.Outside)
	if f.Inside != nil {
		out = append(out, routeElements(v6, viewInside, key, *f.Inside)...)
	}
	if set, ok := masqueradeSet(f); ok {
		out = append(out, Element{id: elementID{v6: v6, set: set, key: key}})
	}
	return out
}

func outsideView(k plan.Key) view {
	if k.IsNodePort() {
		return viewNodePorts
	}
	return viewServices
}

// masqueradeSet is the set that makes postrouting masquerade the frontend's
// connections. A route that forwards nowhere needs none.
func masqueradeSet(f plan.Frontend) (setID, bool) {
	if in := f.Inside; in != nil && in.Action == plan.Forward && in.Masquerade == plan.MasqNode {
		return setMasqNode, true
	}
	if f.Outside.Action != plan.Forward {
		return 0, false
	}
	switch f.Outside.Masquerade {
	case plan.MasqOffCluster:
		return setMasqOffCluster, true
	case plan.MasqAlways:
		return setMasqNodePorts, true
	}
	return 0, false
}

func routeElements(v6 bool, v view, key string, r plan.Route) []Element {
	c := classOf(v, r)
	out := []Element{{id: elementID{v6: v6, set: v.fronts(), key: key}, val: c.bytes()}}
	for i, e := range r.Endpoints[:slotCount(r)] {
		out = append(out, Element{
			id:  elementID{v6: v6, set: v.slots(), key: slotKey(key, i)},
			val: endpointBytes(e),
		})
	}
	return out
}

func slotCount(r plan.Route) int { return min(len(r.Endpoints), maxSlots) }

func classOf(v view, r plan.Route) class {
	switch r.Action {
	case plan.Forward:
		return class{v, uint16(slotCount(r))}
	case plan.Drop:
		return classDrop
	}
	return classReject
}

// frontendKey is address . protocol . port, or protocol . port, each padded to
// the size of a register.
func frontendKey(k plan.Key) string {
	var b []byte
	if !k.IsNodePort() {
		b = append(b, k.Addr.AsSlice()...)
	}
	b = append(b, byte(k.Protocol), 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, k.Port)
	return string(append(b, 0, 0))
}

func slotKey(front string, i int) string {
	return string(binary.NativeEndian.AppendUint32([]byte(front), uint32(i)))
}

func endpointBytes(e plan.Endpoint) string {
	b := binary.BigEndian.AppendUint16(e.Addr.AsSlice(), e.Port)
	return string(append(b, 0, 0))
}

func parseEndpoint(val string) plan.Endpoint {
	n := len(val) - 4
	addr, _ := netip.AddrFromSlice([]byte(val[:n]))
	return plan.Endpoint{Addr: addr, Port: binary.BigEndian.Uint16([]byte(val[n:]))}
}

// hairpins are the local endpoints a frontend may send to, each once.
func hairpins(f plan.Frontend) []netip.Addr {
	var out []netip.Addr
	add := func(eps []plan.Endpoint) {
		for _, e := range eps {
			if e.Local && !slices.Contains(out, e.Addr) {
				out = append(out, e.Addr)
			}
		}
	}
	add(f.Outside.Endpoints)
	if f.Inside != nil {
		add(f.Inside.Endpoints)
	}
	return out
}

func hairpinElement(a netip.Addr) Element {
	b := a.AsSlice()
	return Element{id: elementID{v6: a.Is6(), set: setHairpin, key: string(append(b, b...))}}
}

// settle orders wanted endpoints so that as few slots as possible change: what
// stays keeps its slot if that still exists, the rest fills the holes.
func settle(old, want []plan.Endpoint) []plan.Endpoint {
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
		if i, ok := place[netip.AddrPortFrom(e.Addr, e.Port)]; ok {
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

// Render is every element of a plan as sorted text, the form of the golden files
// and of Dump.
func Render(p *plan.Plan) string {
	elems := nodeElements(p.Node)
	locals := map[netip.Addr]bool{}
	for _, f := range plan.Index(p) {
		elems = append(elems, frontendElements(f)...)
		for _, a := range hairpins(f) {
			if !locals[a] {
				elems = append(elems, hairpinElement(a))
			}
			locals[a] = true
		}
	}
	return text(elems)
}

func text(elems []Element) string {
	lines := make([]string, 0, len(elems))
	for _, e := range elems {
		lines = append(lines, e.String()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// String is the element much as nft prints it, with the class spelled out.
func (e Element) String() string {
	f := familyOf(e.id.v6)
	spec := f.specs()[e.id.set]
	line := fmt.Sprintf("%s %s %s", f.text, spec.name, fields(e.id.key, spec.key))
	if e.id.end {
		line += " (end)"
	}
	if spec.isMap() {
		line += " : " + fields(e.val, spec.data)
	}
	return line
}
