package nftables

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Element is one element of a set or map of one table, in the kernel's bytes.
// Everything that differs from Service to Service is elements.
type Element struct {
	id  elementID
	val string // data of a map's element; the chain, if that is a verdict
}

type elementID struct {
	v6  bool
	set setID
	end bool   // the end of an interval
	key string // both keys of a range, one after the other
}

// nodeElements renders what all Services share.
func nodeElements(n plan.Node) []Element {
	var out []Element
	for _, a := range n.Addrs {
		out = append(out, Element{id: elementID{v6: a.Is6(), set: setNodeAddrs, key: string(a.AsSlice())}})
	}
	out = append(out, intervals(setLocalPods, n.LocalPods)...)
	return append(out, intervals(setServiceCIDRs, n.ServiceCIDRs)...)
}

// intervals renders prefixes as the kernel keeps them, a start and an element
// past the end.
func intervals(set setID, prefixes []netip.Prefix) []Element {
	var out []Element
	for _, p := range outermost(prefixes) {
		v6 := p.Addr().Is6()
		out = append(out, Element{id: elementID{v6: v6, set: set, key: string(p.Masked().Addr().AsSlice())}})
		if end := lastAddr(p).Next(); end.IsValid() {
			out = append(out, Element{id: elementID{v6: v6, set: set, key: string(end.AsSlice()), end: true}})
		}
	}
	return out
}

// outermost leaves out prefixes inside others, which the kernel refuses.
func outermost(sorted []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range sorted {
		if !slices.ContainsFunc(out, p.Overlaps) {
			out = append(out, p)
		}
	}
	return out
}

func lastAddr(p netip.Prefix) netip.Addr {
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
	return last
}

// kernelFrontend is a frontend as the kernel has it: its routes' endpoints are in the
// order of their slots, and its group has a number if it remembers clients.
type kernelFrontend struct {
	plan.Frontend
	group uint32
}

// mirrored is a kernelFrontend in the mirror: the plan's own, as long as its endpoints are in the
// order of their slots there.
type mirrored struct {
	front *plan.Frontend // nil: there is none
	group uint32
}

// mirror is what the mirror has of a frontend that came from a plan.
func mirror(f kernelFrontend, from *plan.Frontend) mirrored {
	same := func(a, b []plan.Endpoint) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	if same(f.Outside.Endpoints, from.Outside.Endpoints) && (f.Inside == nil || same(f.Inside.Endpoints, from.Inside.Endpoints)) {
		return mirrored{from, f.group}
	}
	own := f.Frontend
	return mirrored{&own, f.group}
}

func (h mirrored) frontend() kernelFrontend {
	if h.front == nil {
		return kernelFrontend{}
	}
	return kernelFrontend{*h.front, h.group}
}

// elements renders one frontend, except for its hairpins, which are shared with
// other frontends. Slots that another state of it has too are left out: a change costs by
// the number of endpoints that changed.
func (f kernelFrontend) elements(but *kernelFrontend) []Element {
	v6 := f.Key.IPv6
	if f.Key.IsWildcard() {
		return []Element{{id: elementID{v6: v6, set: setClusterIPs, key: string(f.Key.Addr.AsSlice())}}}
	}
	key := frontendKey(f.Key)
	var same, sameInside []plan.Endpoint
	if but != nil && f.Affinity == 0 && but.Affinity == 0 {
		same = but.Outside.Endpoints[:slotCount(but.Outside)]
		if but.Inside != nil {
			sameInside = but.Inside.Endpoints[:slotCount(*but.Inside)]
		}
	}
	out := f.routeElements(nil, f.view(false), key, f.Outside, same)
	if f.Inside != nil {
		out = f.routeElements(out, f.view(true), key, *f.Inside, sameInside)
	}
	if set, ok := masqueradeSet(f.Frontend); ok {
		out = append(out, Element{id: elementID{v6: v6, set: set, key: key}})
	}
	if f.Restricted {
		out = append(out, Element{id: elementID{v6: v6, set: setRestricted, key: key}})
		for _, p := range outermost(f.Sources) {
			out = append(out, Element{id: elementID{v6: v6, set: setSources, key: rangeKey(key, p)}})
		}
	}
	if remembers(f.Frontend) {
		timeouts := setTimeouts
		if f.Key.IsNodePort() {
			timeouts = setTimeoutPorts
		}
		out = append(out, Element{elementID{v6: v6, set: groupSet(f.Key.IsNodePort()), key: key}, numberBytes(f.group)},
			Element{elementID{v6: v6, set: timeouts, key: key}, numberBytes(seconds(f.Affinity))})
	}
	return out
}

// view is the map of frontends that one of the routes is in.
func (f kernelFrontend) view(inside bool) view {
	v := viewServices
	if f.Key.IsNodePort() {
		v = viewNodePorts
	}
	if inside {
		v++
	}
	return v
}

// masqueradeSet is the set that makes postrouting masquerade the frontend's
// connections. A route that forwards nowhere needs none.
func masqueradeSet(f plan.Frontend) (setID, bool) {
	always, node := setMasqAlways, setMasqNode
	if f.Key.IsNodePort() {
		always, node = setMasqAlwaysPorts, setMasqNodePorts
	}
	if in := f.Inside; in != nil && in.Action == plan.Forward && in.Masquerade == plan.MasqNode {
		return node, true
	}
	if f.Outside.Action != plan.Forward {
		return 0, false
	}
	switch f.Outside.Masquerade {
	case plan.MasqOffCluster:
		return setMasqOffCluster, true
	case plan.MasqAlways:
		return always, true
	case plan.MasqNode:
		return node, true
	}
	return 0, false
}

// routeElements leaves out the slots that hold the same endpoint among others'.
func (f kernelFrontend) routeElements(out []Element, v view, key string, r plan.Route, but []plan.Endpoint) []Element {
	v6, c := f.Key.IPv6, f.classOf(v, r)
	out = append(out, Element{id: elementID{v6: v6, set: v.fronts(), key: key}, val: c.bytes()})
	eps := r.Endpoints[:slotCount(r)]
	if but == nil {
		out = slices.Grow(out, 4+len(eps))
	}
	for i, e := range eps {
		if i >= len(but) || !e.SamePlace(but[i]) {
			out = append(out, slotElement(v6, v, key, uint32(i), e))
		}
	}
	if !c.sticky {
		return out
	}
	byNumber := make(map[uint32]plan.Endpoint, len(eps))
	for _, e := range eps {
		n := endpointNumber(e)
		if first, taken := byNumber[n]; !taken || e.Compare(first) < 0 {
			byNumber[n] = e
		}
	}
	for n, e := range byNumber {
		out = append(out, slotElement(v6, v, key, n, e))
	}
	return out
}

func slotElement(v6 bool, v view, key string, n uint32, e plan.Endpoint) Element {
	return Element{elementID{v6: v6, set: v.slots(slotPart(key)), key: slotKey(key, n)}, endpointBytes(e)}
}

func slotCount(r plan.Route) int { return min(len(r.Endpoints), maxSlots) }

func (f kernelFrontend) classOf(v view, r plan.Route) class {
	c := classReject
	switch r.Action {
	case plan.Forward:
		c = class{view: v, sticky: f.Affinity > 0, n: uint16(slotCount(r))}
	case plan.Drop:
		c = classDrop
	}
	c.guarded = v == viewServices && (f.Restricted || f.Inside != nil)
	return c
}

// entry is a class in the vmap of a view.
type entry struct {
	view  view
	class class
}

// classes are those of the routes, each after the one that it leads to.
func (f kernelFrontend) classes() []entry {
	if f.Key.IsWildcard() {
		return nil
	}
	v := f.view(false)
	c := f.classOf(v, f.Outside)
	out := []entry{{v, c.past()}}
	if c.guarded {
		out = append(out, entry{v, c})
	}
	if f.Inside != nil {
		v := f.view(true)
		out = append(out, entry{v, f.classOf(v, *f.Inside)})
	}
	return out
}

// frontendKey is address . protocol . port, or protocol . port, each padded to
// the size of a register.
func frontendKey(k plan.Key) string {
	b := make([]byte, 0, 24)
	if !k.IsNodePort() {
		b = append(b, k.Addr.AsSlice()...)
	}
	b = append(b, byte(k.Protocol), 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, k.Port)
	return string(append(b, 0, 0))
}

// rangeKey is the frontend's key with the first and with the last source.
func rangeKey(front string, p netip.Prefix) string {
	return front + string(p.Masked().Addr().AsSlice()) + front + string(lastAddr(p).AsSlice())
}

func slotKey(front string, n uint32) string {
	b := append(make([]byte, 0, 28), front...)
	return string(binary.NativeEndian.AppendUint32(b, n))
}

func protocolBytes(p objects.Protocol) string { return string([]byte{byte(p)}) }

func numberBytes(n uint32) string { return string(native(n)) }

func endpointBytes(e plan.Endpoint) string {
	b := append(make([]byte, 0, 20), e.Addr.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, e.Port)
	return string(append(b, 0, 0))
}

func parseEndpoint(val string) (plan.Endpoint, bool) {
	n := len(val) - 4
	if n != 4 && n != 16 {
		return plan.Endpoint{}, false
	}
	addr, ok := netip.AddrFromSlice([]byte(val[:n]))
	return plan.Endpoint{Addr: addr, Port: binary.BigEndian.Uint16([]byte(val[n:]))}, ok
}

// hairpin is an endpoint that may be its own client: one that is or may be local by any route of any frontend, one of another node
// by the inside of a frontend that masquerades the node's own.
type hairpin struct {
	addr      netip.Addr
	elsewhere bool
}

// hairpins are those a frontend may send to, for each slot that has one, but for slots that have the same in another
// state of it.
func hairpins(f, but plan.Frontend) (out []hairpin) {
	add := func(eps, same []plan.Endpoint, inside bool) {
		for i, e := range eps {
			if e.MayBeClient(inside) && (i >= len(same) || same[i] != e) {
				out = append(out, hairpin{e.Addr, !e.MayBeClient(false)})
			}
		}
	}
	add(f.Outside.Endpoints, but.Outside.Endpoints, false)
	if f.Inside != nil {
		var same []plan.Endpoint
		if but.Inside != nil {
			same = but.Inside.Endpoints
		}
		add(f.Inside.Endpoints, same, true)
	}
	return out
}

// hairpinElements are those of some frontends, each once.
func hairpinElements(fronts ...kernelFrontend) (out []Element) {
	seen := map[hairpin]bool{}
	for _, f := range fronts {
		for _, h := range hairpins(f.Frontend, plan.Frontend{}) {
			if !seen[h] {
				seen[h] = true
				out = append(out, hairpinElement(h))
			}
		}
	}
	return out
}

func hairpinElement(h hairpin) Element {
	b, set := h.addr.AsSlice(), setHairpin
	if h.elsewhere {
		set = setHairpinInside
	}
	return Element{id: elementID{v6: h.addr.Is6(), set: set, key: string(append(b, b...))}}
}

// Render is every element of a plan as sorted text, the form of the golden files
// and of Dump.
func Render(p *plan.Plan) string { return text(planElements(p)) }

func planElements(p *plan.Plan) []Element {
	elems, fronts := nodeElements(p.Node), kernelFrontends(p)
	for _, f := range fronts {
		elems = append(elems, f.elements(nil)...)
	}
	return append(elems, hairpinElements(fronts...)...)
}

// kernelFrontends are those of a plan as a kernel without any gets them, in order of their keys.
func kernelFrontends(p *plan.Plan) (out []kernelFrontend) {
	numbers, index := newGroups(), plan.Index(p)
	for _, k := range slices.SortedFunc(maps.Keys(index), plan.Key.Compare) {
		f := kernelFrontend{Frontend: *index[k]}
		if remembers(f.Frontend) {
			f.group = numbers.join(f.Group)
		}
		out = append(out, f)
	}
	return out
}

func text(elems []Element) string {
	fam := newBoth()
	lines := make([]string, 0, len(elems))
	for _, e := range elems {
		lines = append(lines, e.describe(fam.of(e.id.v6))+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
