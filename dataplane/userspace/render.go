package userspace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Element is one element of a set of one table, in the kernel's bytes. All that
// differs from Service to Service in the kernel is elements; where connections
// go to is in the process alone.
type Element struct {
	v6   bool
	set  setID
	key  string
	to   string // the last key of a range, of sources only
	past bool   // the end of an interval
}

// compare orders elements as they are written: an interval ends before the next
// one begins at the same key, else the kernel takes them for overlapping.
func (e Element) compare(o Element) int {
	order := func(e Element) int {
		if e.past {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(familyOf(e.v6).text, familyOf(o.v6).text), cmp.Compare(e.set, o.set), cmp.Compare(e.key, o.key),
		cmp.Compare(order(e), order(o)), cmp.Compare(e.to, o.to))
}

// frontendElements renders one frontend, nothing for one that is not supported.
func frontendElements(f plan.Frontend) []Element {
	k := f.Key
	if !Supports(k.Protocol) && !k.IsWildcard() {
		return nil
	}
	if k.IsWildcard() {
		return []Element{{v6: k.IPv6, set: setClusterIPs, key: string(k.Addr.AsSlice())}}
	}
	outside, inside, key := viewServices, viewInsideServices, exactKey(k)
	if k.IsNodePort() {
		outside, inside, key = viewNodePorts, viewInsideNodePorts, portKey(k)
	}
	out := []Element{{v6: k.IPv6, set: outside.set(f.Outside.Action), key: key}}
	if f.Inside != nil {
		out = append(out, Element{v6: k.IPv6, set: inside.set(f.Inside.Action), key: key})
	}
	if f.Restricted {
		out = append(out, Element{v6: k.IPv6, set: setRestricted, key: key})
		for _, p := range widest(f.Sources) {
			out = append(out, Element{
				v6: k.IPv6, set: setSources,
				key: key + string(p.Masked().Addr().AsSlice()), to: key + string(last(p).AsSlice()),
			})
		}
	}
	return out
}

func portKey(k plan.Key) string {
	b := []byte{byte(k.Protocol), 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, k.Port)
	return string(append(b, 0, 0))
}

func exactKey(k plan.Key) string { return string(k.Addr.AsSlice()) + portKey(k) }

// nodeElements renders what all Services share.
func nodeElements(n plan.Node) []Element {
	var out []Element
	for _, a := range n.Addrs {
		out = append(out, Element{v6: a.Is6(), set: setNodeAddrs, key: string(a.AsSlice())})
	}
	out = append(out, intervals(setLocalPods, n.LocalPods)...)
	return append(out, intervals(setServiceCIDRs, n.ServiceCIDRs)...)
}

// intervals renders prefixes as the kernel keeps them, a start and an element
// past the end.
func intervals(set setID, prefixes []netip.Prefix) []Element {
	var out []Element
	for _, p := range widest(prefixes) {
		v6 := p.Addr().Is6()
		out = append(out, Element{v6: v6, set: set, key: string(p.Masked().Addr().AsSlice())})
		if next := last(p).Next(); next.IsValid() {
			out = append(out, Element{v6: v6, set: set, key: string(next.AsSlice()), past: true})
		}
	}
	return out
}

// widest leaves out prefixes inside others: the kernel refuses overlaps.
func widest(sorted []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range sorted {
		if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Overlaps(p) }) {
			out = append(out, p)
		}
	}
	return out
}

// last is the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Render is every element of a plan as sorted text, in the form of Dump.
func Render(p *plan.Plan) string {
	elems := nodeElements(p.Node)
	for _, f := range plan.Index(p) {
		elems = append(elems, frontendElements(*f)...)
	}
	return text(elems)
}

func text(elems []Element) string {
	var rows []string
	for _, e := range elems {
		rows = append(rows, e.String()+"\n")
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// String is the element as dumps show it, such as
// "ip services-forward 10.96.0.1 . tcp . 80". Somebody else's set may have the name of one of ours.
func (e Element) String() string {
	f := familyOf(e.v6)
	spec := f.specs()[e.set]
	out := f.text + " " + spec.name + " "
	if size := keySize(spec); len(e.key) != size || e.to != "" && (len(e.to) != size || !spec.interval) {
		out += fmt.Sprintf("not whole: %x-%x", e.key, e.to)
	} else {
		out += e.ranged(f)
	}
	if e.past {
		out += " (end)"
	}
	return out
}

// keySize is how long keys of a set are in the kernel: each field takes whole registers.
func keySize(spec setSpec) (size int) {
	for _, t := range spec.key {
		size += int(t.Bytes+3) &^ 3
	}
	return size
}

// ranged is a whole element's key, or keys.
func (e Element) ranged(f family) string {
	out := fields(e.set, f, e.key)
	if e.to != "" {
		end, _ := netip.AddrFromSlice([]byte(e.to[len(e.to)-int(f.addrLen):]))
		out += "-" + end.String()
	}
	return out
}

func fields(set setID, f family, key string) string {
	var out []string
	for i, t := range f.specs()[set].key {
		n := int(t.Bytes)
		part := key[:min(n, len(key))]
		key = key[min((n+3)&^3, len(key)):]
		switch {
		case t.Name == f.addrType.Name:
			a, _ := netip.AddrFromSlice([]byte(part))
			out = append(out, a.String())
		case n == 1:
			out = append(out, objects.Protocol(part[0]).String())
		case n == 2:
			out = append(out, fmt.Sprint(binary.BigEndian.Uint16([]byte(part))))
		default:
			out = append(out, fmt.Sprintf("field %d: %x", i, part))
		}
	}
	return strings.Join(out, " . ")
}
