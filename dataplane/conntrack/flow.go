package conntrack

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// flow is one entry of the kernel's table.
type flow struct {
	protocol objects.Protocol
	src, dst netip.AddrPort // of its first packet, before any translation
	// from and back are the source and destination of its answers as they come
	// in: from is the endpoint, or dst if nothing was translated.
	from, back netip.AddrPort
	id         uint32 // CTA_ID, as it came
	state      uint8  // of TCP
}

func (f flow) String() string {
	return fmt.Sprintf("%s %s to %s by %s", f.protocol, f.src, f.dst, f.from)
}

// filter is what the kernel is asked for: the flows of a family and protocol,
// of these all or those to a destination, or answered from an address.
type filter struct {
	ipv6     bool
	protocol objects.Protocol
	dst      netip.AddrPort // invalid: any
	from     netip.AddrPort // invalid: any
}

func toward(protocol objects.Protocol, dst netip.AddrPort) filter {
	return filter{ipv6: dst.Addr().Is6(), protocol: protocol, dst: portOnly(dst)}
}

func answeredBy(protocol objects.Protocol, from netip.AddrPort) filter {
	return filter{ipv6: from.Addr().Is6(), protocol: protocol, from: portOnly(from)}
}

// portOnly takes an IPv6 address away. The kernel compares them the wrong way
// round: with one in CTA_FILTER it sends all flows but those asked for
// (ctnetlink_filter_match_tuple since 5.8, seen on 6.18). With the port alone it
// is right, and so would be a kernel where that is mended.
func portOnly(a netip.AddrPort) netip.AddrPort {
	if a.Addr().Is6() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())
	}
	return a
}

func (q filter) matches(f flow) bool {
	same := func(want, got netip.AddrPort) bool {
		return !want.IsValid() || want.Port() == got.Port() && (want.Addr().IsUnspecified() || want == got)
	}
	return f.protocol == q.protocol && f.dst.Addr().Is6() == q.ipv6 && same(q.dst, f.dst) && same(q.from, f.from)
}

// wide is the filter without addresses.
func (q filter) wide() filter { return filter{ipv6: q.ipv6, protocol: q.protocol} }

func (q filter) String() string {
	switch {
	case q.dst.IsValid():
		return fmt.Sprintf("%s to %s", q.protocol, q.dst)
	case q.from.IsValid():
		return fmt.Sprintf("%s by %s", q.protocol, q.from)
	case q.ipv6:
		return fmt.Sprintf("%s (ip6)", q.protocol)
	}
	return q.protocol.String()
}

// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const (
	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaProtoinfo  = 4
	ctaNatSrc     = 6
	ctaTimeout    = 7
	ctaID         = 12
	ctaZone       = 18
	ctaFilter     = 25

	ctaTupleIP    = 1
	ctaTupleProto = 2
	ctaTupleZone  = 3

	ctaIPv4Src = 1
	ctaIPv4Dst = 2
	ctaIPv6Src = 3
	ctaIPv6Dst = 4

	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3

	ctaProtoinfoTCP      = 1
	ctaProtoinfoTCPState = 1

	ctaNatV4Min   = 1
	ctaNatProto   = 3
	ctaNatV6Min   = 4
	ctaNatPortMin = 1
	ctaNatPortMax = 2

	ctaFilterOrig  = 1
	ctaFilterReply = 2
)

// The bits of CTA_FILTER (Linux 5.8, net/netfilter/nf_internals.h): what of a
// tuple has to be equal.
const (
	sameSrc     = 1 << 0
	sameDst     = 1 << 1
	sameProto   = 1 << 3
	sameSrcPort = 1 << 4
	sameDstPort = 1 << 5
)

const nested = unix.NLA_F_NESTED

func family(ipv6 bool) uint8 {
	if ipv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// put appends an attribute; several parts are its nested ones.
func put(to []byte, kind uint16, parts ...[]byte) []byte {
	start := len(to)
	to = append(to, 0, 0, 0, 0)
	for _, p := range parts {
		to = append(to, p...)
	}
	binary.NativeEndian.PutUint16(to[start:], uint16(len(to)-start))
	binary.NativeEndian.PutUint16(to[start+2:], kind)
	for len(to)%4 != 0 {
		to = append(to, 0)
	}
	return to
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }
func be32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

// tuple is one direction of a flow. Invalid ends are left out.
func tuple(kind uint16, protocol objects.Protocol, src, dst netip.AddrPort) []byte {
	var ip []byte
	proto := put(nil, ctaProtoNum, []byte{uint8(protocol)})
	if src.IsValid() {
		ip = put(ip, v4v6(src.Addr(), ctaIPv4Src, ctaIPv6Src), src.Addr().AsSlice())
		proto = put(proto, ctaProtoSrcPort, be16(src.Port()))
	}
	if dst.IsValid() {
		ip = put(ip, v4v6(dst.Addr(), ctaIPv4Dst, ctaIPv6Dst), dst.Addr().AsSlice())
		proto = put(proto, ctaProtoDstPort, be16(dst.Port()))
	}
	return put(nil, nested|kind, put(nil, nested|ctaTupleIP, ip), put(nil, nested|ctaTupleProto, proto))
}

func v4v6(a netip.Addr, v4, v6 uint16) uint16 {
	if a.Is6() {
		return v6
	}
	return v4
}

// nfgen is the header of every netfilter message.
func nfgen(ipv6 bool) []byte { return []byte{family(ipv6), unix.NFNETLINK_V0, 0, 0} }

// dumpRequest asks for what a filter matches, or for the whole family if the
// kernel has no CTA_FILTER.
func dumpRequest(q filter, plain bool) []byte {
	out := nfgen(q.ipv6)
	if plain {
		return out
	}
	orig, reply := uint32(sameProto), uint32(0)
	if q.dst.IsValid() {
		orig |= sameDstPort
		if !q.ipv6 {
			orig |= sameDst
		}
	}
	out = append(out, tuple(ctaTupleOrig, q.protocol, netip.AddrPort{}, q.dst)...)
	if q.from.IsValid() {
		reply = sameProto | sameSrcPort
		if !q.ipv6 {
			reply |= sameSrc
		}
		out = append(out, tuple(ctaTupleReply, q.protocol, q.from, netip.AddrPort{})...)
	}
	native := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	return put(out, nested|ctaFilter, put(nil, ctaFilterOrig, native(orig)), put(nil, ctaFilterReply, native(reply)))
}

// readRequest names a flow by its answers, which hold its endpoint.
func readRequest(f flow) []byte {
	return append(nfgen(f.dst.Addr().Is6()), tuple(ctaTupleReply, f.protocol, f.from, f.back)...)
}

// deleteRequest names one and no other: the same client's next flow, to another endpoint, is
// not hit, though the kernel may give it the same address in memory and so the same id.
func deleteRequest(f flow) []byte {
	return put(readRequest(f), ctaID, binary.NativeEndian.AppendUint32(nil, f.id))
}

// attributes of a message or of one that nests others; what is cut short ends them.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:size]) {
				return
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// parseFlow reads an entry of the table; ok is false for one of another
// conntrack zone, or without ports.
func parseFlow(b []byte) (f flow, ok bool) {
	if len(b) < len(nfgen(false)) {
		return flow{}, false
	}
	ok = true
	for kind, data := range attributes(b[len(nfgen(false)):]) {
		switch kind {
		case ctaTupleOrig:
			f.src, f.dst, f.protocol, ok = parseTuple(data, ok)
		case ctaTupleReply:
			f.from, f.back, _, ok = parseTuple(data, ok)
		case ctaZone:
			ok = false
		case ctaID:
			if len(data) == 4 {
				f.id = binary.NativeEndian.Uint32(data)
			}
		case ctaProtoinfo:
			f.state = tcpState(data)
		}
	}
	return f, ok && f.src.IsValid() && f.dst.IsValid() && f.from.IsValid() && f.back.IsValid()
}

func parseTuple(b []byte, good bool) (src, dst netip.AddrPort, protocol objects.Protocol, ok bool) {
	var from, to netip.Addr
	var fromPort, toPort uint16
	var have [2]bool // of the ports
	for kind, data := range attributes(b) {
		switch kind {
		case ctaTupleIP:
			for kind, data := range attributes(data) {
				a, _ := netip.AddrFromSlice(data)
				switch kind {
				case ctaIPv4Src, ctaIPv6Src:
					from = a
				case ctaIPv4Dst, ctaIPv6Dst:
					to = a
				}
			}
		case ctaTupleProto:
			for kind, data := range attributes(data) {
				switch {
				case kind == ctaProtoNum && len(data) == 1:
					protocol = objects.Protocol(data[0])
				case kind == ctaProtoSrcPort && len(data) == 2:
					fromPort, have[0] = binary.BigEndian.Uint16(data), true
				case kind == ctaProtoDstPort && len(data) == 2:
					toPort, have[1] = binary.BigEndian.Uint16(data), true
				}
			}
		case ctaTupleZone:
			good = false
		}
	}
	return netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort), protocol, good && have == [2]bool{true, true}
}

func tcpState(b []byte) uint8 {
	for kind, data := range attributes(b) {
		if kind != ctaProtoinfoTCP {
			continue
		}
		for kind, data := range attributes(data) {
			if kind == ctaProtoinfoTCPState && len(data) == 1 {
				return data[0]
			}
		}
	}
	return 0
}
