package ebpf_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// crossing is a packet at a device, without its frame.
type crossing struct {
	name   string
	device string
	egress bool
	packet []byte
}

// The Services that packets are mangled for: one with an endpoint, one with none, one that is
// reached from outside by an address of its own.
func mangledFor() []service {
	return []service{
		{number: 1, endpoints: both(2)}, {number: 2},
		{number: 3, endpoints: both(3), external: []string{"203.0.113.9", "2001:db8:cb::9"}},
	}
}

// ends are the addresses of the packets below, of one family. Clients have ports of Config.SNATPorts,
// which they keep, so that what a packet meets is the same every time.
type mangleEnds struct {
	vip, rest, none, external, node, masqueraded, endpoint, pod, outside, router, nobody netip.AddrPort
}

func endsOf(v6 bool) mangleEnds {
	all := mangledFor()
	at := func(a string, port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), port) }
	e := mangleEnds{
		vip: all[0].vip(v6), none: all[1].vip(v6), node: all[0].nodePort(v6), endpoint: pod(v6, 2),
		external: at("203.0.113.9", 80), masqueraded: at("192.0.3.1", 20001), router: at("192.0.3.2", 0), nobody: at("8.8.8.8", 53),
	}
	like := e.vip.Addr()
	e.pod, e.outside = netip.AddrPortFrom(dptest.PodA.Addr(like), 20000), netip.AddrPortFrom(dptest.Outside.Addr(like), 20001)
	if v6 {
		e.external, e.masqueraded, e.router, e.nobody = at("2001:db8:cb::9", 80), at("2001:db8:3::1", 20001), at("2001:db8:3::2", 0), at("2001:db8:ffff::8", 53)
	}
	e.rest = netip.AddrPortFrom(like, 81)
	return e
}

func onPort(a netip.AddrPort, port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), port) }

// opening are the packets that begin the connections which others are mangled beside.
func opening() (out []crossing) {
	for _, v6 := range []bool{false, true} {
		e := endsOf(v6)
		for _, proto := range protocols() {
			for device, f := range map[string]frame{"pa": {src: e.pod, dst: e.vip}, "out": {src: e.outside, dst: e.node}} {
				f.proto, f.flags = proto, syn
				out = append(out, crossing{"", device, false, summed(f)})
			}
		}
	}
	return out
}

// whole are packets of every kind that a program tells from others, with right checksums.
func whole() (out []crossing) {
	for _, v6 := range []bool{false, true} {
		for _, proto := range protocols() {
			out = append(out, transports(v6, proto)...)
		}
		out = append(out, messages(v6)...)
	}
	return out
}

func transports(v6 bool, proto objects.Protocol) (out []crossing) {
	e := endsOf(v6)
	for _, c := range []struct {
		what, device string
		egress       bool
		src, dst     netip.AddrPort
		flags        byte
	}{
		{"of a connection", "pa", false, e.pod, e.vip, ack},
		{"a first one", "pa", false, onPort(e.pod, 20002), e.vip, syn},
		{"for nobody there", "pa", false, onPort(e.pod, 20003), e.none, syn},
		{"for the rest", "pa", false, onPort(e.pod, 20004), e.rest, syn},
		{"masqueraded", "out", false, e.outside, e.node, ack},
		{"external", "out", false, onPort(e.outside, 20005), e.external, syn},
		{"an answer", "pa", true, e.endpoint, e.pod, ack},
		{"a masqueraded answer comes", "rem", false, e.endpoint, e.masqueraded, ack},
		{"a masqueraded answer goes", "out", true, e.endpoint, e.outside, ack},
		{"to be masqueraded", "rem", true, e.outside, e.endpoint, ack},
		{"not ours", "pa", false, e.pod, e.nobody, syn},
		{"not ours goes", "world", true, e.pod, e.nobody, syn},
		{"not translated", "world", true, e.pod, e.vip, syn},
	} {
		f := frame{src: c.src, dst: c.dst, proto: proto, flags: c.flags}
		out = append(out, crossing{fmt.Sprintf("%s, %s, IPv6 %t", c.what, proto, v6), c.device, c.egress, summed(f)})
	}
	return out
}

func messages(v6 bool) (out []crossing) {
	e := endsOf(v6)
	add := func(what, device string, egress bool, src, dst netip.AddrPort, quoted ...frame) {
		f := frame{src: src, dst: dst, proto: icmp4, body: icmp(8, 0)}
		if v6 {
			f.proto, f.body = icmp6, icmp(128, 0)
		}
		for _, q := range quoted {
			if f.body = icmp(3, 1, summed(q)...); v6 {
				f.body = icmp(1, 3, summed(q)...)
			}
			what += ", " + q.proto.String()
		}
		out = append(out, crossing{fmt.Sprintf("%s, IPv6 %t", what, v6), device, egress, summed(f)})
	}
	add("an echo", "pa", false, e.pod, e.vip)
	add("an echo to nobody of ours", "pa", false, e.pod, e.nobody)
	for _, proto := range protocols() {
		of := func(src, dst netip.AddrPort) frame { return frame{src: src, dst: dst, proto: proto, flags: ack} }
		add("an error of a masqueraded packet", "rem", false, e.router, e.masqueraded, of(e.masqueraded, e.endpoint))
		add("an error of the client's", "pa", false, e.pod, e.vip, of(e.vip, e.pod))
		add("an error for the client", "pa", true, e.endpoint, e.pod, of(e.pod, e.endpoint))
		add("an error for the endpoint", "rem", true, e.outside, e.endpoint, of(e.endpoint, e.outside))
	}
	return out
}

func summed(f frame) []byte {
	b := f.network()
	sumUp(b)
	return b
}

// The ways to mangle a packet.
const (
	setByte = iota
	flipBit
	cutAt
	insertWord
	addHeader
	makeFragment
	setLength
	sumAgain
	addData
	otherAddress
	otherPort
	otherProtocol
	rightLength
	sumNone // of UDP
	manglings
)

// mangled is a packet after one change: which, where, and what.
func mangled(b []byte, how, where, what byte) []byte {
	b = slices.Clone(b)
	v6 := len(b) > 0 && b[0]>>4 == 6
	if len(b) < 20 || v6 && len(b) < 40 {
		return b
	}
	at := int(where) % len(b)
	switch how % manglings {
	case setByte:
		b[at] = what
	case flipBit:
		b[at] ^= 1 << (what % 8)
	case cutAt:
		b = b[:at]
	case insertWord:
		b = slices.Insert(b, at, what, what, what, what)
	case addHeader:
		b = headed(b, v6, where, what)
	case makeFragment:
		b = fragmented(b, v6, where, what)
	case setLength:
		setLengthOf(b, v6, int(where)<<8|int(what))
	case sumAgain:
		sumUp(b)
	case addData:
		b = append(b, make([]byte, what)...)
	case otherAddress:
		all := mangleAddresses(v6)
		copy(b[addressAt(v6, where%2 == 0):], all[int(what)%len(all)].AsSlice())
	case otherPort:
		ports := []uint16{0, 53, 80, 81, 8080, 20000, 20001, 30201, 30202}
		if h, ok := headersOf(b); ok && h.l4 > 0 && h.l4+4 <= len(b) {
			binary.BigEndian.PutUint16(b[h.l4+int(where%2)*2:], ports[int(what)%len(ports)])
		}
	case otherProtocol:
		b[map[bool]int{false: 9, true: 6}[v6]] = what
	case rightLength:
		setLengthOf(b, v6, len(b))
	case sumNone:
		if h, ok := headersOf(b); ok && h.proto == objects.UDP && h.sumAt() > 0 {
			copy(b[h.sumAt():], []byte{0, 0})
		}
	}
	return b
}

func addressAt(v6, source bool) int {
	at := map[bool]int{false: 16, true: 24}[v6]
	if source {
		at = map[bool]int{false: 12, true: 8}[v6]
	}
	return at
}

func mangleAddresses(v6 bool) (out []netip.Addr) {
	e := endsOf(v6)
	for _, a := range []netip.AddrPort{e.vip, e.none, e.external, e.node, e.masqueraded, e.endpoint, e.pod, e.outside, e.nobody} {
		out = append(out, a.Addr())
	}
	more := []string{"0.0.0.0", "224.0.0.1", "255.255.255.255", "10.96.9.9"}
	if v6 {
		more = []string{"::", "ff02::1", "::ffff:10.96.5.1", "fd00:10:96::9:9"}
	}
	for _, a := range more {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// setLengthOf says that a packet has n bytes.
func setLengthOf(b []byte, v6 bool, n int) {
	if v6 {
		binary.BigEndian.PutUint16(b[4:], uint16(n-40))
	} else {
		binary.BigEndian.PutUint16(b[2:], uint16(n))
	}
}

// headed has options before the transport header: of IPv4, or an extension header of IPv6.
func headed(b []byte, v6 bool, where, what byte) []byte {
	if v6 {
		kinds := []byte{unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS, unix.IPPROTO_AH, unix.IPPROTO_FRAGMENT}
		more := make([]byte, 8*(1+int(where%3)))
		more[0], more[1] = b[6], where%4
		b[6] = kinds[int(what)%len(kinds)]
		b = slices.Insert(b, 40, more...)
	} else {
		words := min(int(what)%11, 15-int(b[0]&15))
		b[0] += byte(words)
		b = slices.Insert(b, 20, slices.Repeat([]byte{where}, 4*words)...)
	}
	setLengthOf(b, v6, len(b))
	return b
}

func fragmented(b []byte, v6 bool, where, what byte) []byte {
	if !v6 {
		b[6], b[7] = where&0x3f, what
		return b
	}
	b = slices.Insert(b, 40, b[6], 0, where, what, 0, 0, 0, 7)
	b[6] = unix.IPPROTO_FRAGMENT
	setLengthOf(b, v6, len(b))
	return b
}
