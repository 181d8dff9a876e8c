package ebpf_test

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// headers are where the parts of a packet stand, as far as it has them: a second opinion beside
// the programs'.
type headers struct {
	v6       bool
	src, dst netip.Addr
	proto    objects.Protocol
	l4       int // 0: there is none to be found
	end      int // of the packet by its own word; 0: not one that a kernel takes
	frag     int // where the fragment header stands, IPv6
	fragment bool
	later    bool
}

// headersOf reads a packet without its frame, as deep as it goes.
func headersOf(b []byte) (h headers, ok bool) {
	if len(b) < 20 {
		return h, false
	}
	if b[0]>>4 == 6 {
		return headers6(b)
	}
	h.src, h.dst, h.proto = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), objects.Protocol(b[9])
	ihl, end, frag := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:])), binary.BigEndian.Uint16(b[6:])
	if b[0]>>4 != 4 || ihl < 20 {
		return h, false
	}
	h.fragment, h.later = frag&0x3fff != 0, frag&0x1fff != 0
	if ihl <= len(b) {
		h.l4 = ihl
		if end >= ihl && end <= len(b) && checksum(b[:ihl]) == 0xffff {
			h.end = end
		}
	}
	return h, true
}

func headers6(b []byte) (h headers, ok bool) {
	if len(b) < 40 {
		return h, false
	}
	h.v6, h.src, h.dst = true, netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	if end := 40 + int(binary.BigEndian.Uint16(b[4:])); end <= len(b) {
		h.end = end
	}
	next, at := b[6], 40
	for {
		h.proto = objects.Protocol(next)
		size := 8
		switch next {
		case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS, unix.IPPROTO_FRAGMENT, unix.IPPROTO_AH:
			if at+8 > len(b) {
				return h, true
			}
		default:
			if at <= len(b) {
				h.l4 = at
			}
			return h, true
		}
		switch next {
		case unix.IPPROTO_FRAGMENT:
			field := binary.BigEndian.Uint16(b[at+2:])
			h.frag, h.fragment, h.later = at, field&0xfff9 != 0, field&0xfff8 != 0
		case unix.IPPROTO_AH:
			size = (int(b[at+1]) + 2) * 4
		default:
			size = (int(b[at+1]) + 1) * 8
		}
		next, at = b[at], at+size
		if h.later {
			h.proto = objects.Protocol(next)
			if at <= len(b) {
				h.l4 = at
			}
			return h, true
		}
	}
}

// sumAt is where the transport's checksum stands, 0 if there is none.
func (h headers) sumAt() int {
	offset := 0
	switch {
	case h.proto == objects.TCP:
		offset = 16
	case h.proto == objects.UDP:
		offset = 6
	case h.icmp():
		offset = 2
	default:
		return 0
	}
	if h.l4 == 0 || h.later || h.end == 0 || h.l4+offset+2 > h.end {
		return 0
	}
	return h.l4 + offset
}

// summed tells whether the transport has a checksum: UDP may be without.
func (h headers) summed(b []byte) bool {
	at := h.sumAt()
	return at == 0 || h.proto != objects.UDP || b[at]|b[at+1] != 0
}

func (h headers) icmp() bool { return h.proto == icmp4 && !h.v6 || h.proto == icmp6 && h.v6 }

// isError tells whether the packet is an ICMP error, and where what it quotes begins.
func (h headers) isError(b []byte) (at int, is bool) {
	if !h.icmp() || h.later || h.l4 == 0 || h.l4+8 > len(b) {
		return 0, false
	}
	kind := b[h.l4]
	if h.v6 {
		return h.l4 + 8, kind >= 1 && kind <= 4
	}
	return h.l4 + 8, kind == 3 || kind == 4 || kind == 11 || kind == 12
}

// sum is the transport's checksum as it stands: 0xffff is right.
func (h headers) sum(b []byte) uint16 {
	var pseudo []byte
	if h.v6 || !h.icmp() {
		pseudo = append(append(pseudo, h.src.AsSlice()...), h.dst.AsSlice()...)
		pseudo = append(binary.BigEndian.AppendUint32(pseudo, uint32(h.end-h.l4)), 0, 0, 0, byte(h.proto))
	}
	return checksum(append(pseudo, b[h.l4:h.end]...))
}

// right tells whether the transport's checksum is there and right.
func (h headers) right(b []byte) bool {
	at := h.sumAt()
	return at > 0 && !h.fragment && h.sum(b) == 0xffff
}

// sumUp writes the checksums of a packet.
func sumUp(b []byte) {
	h, _ := headersOf(b)
	if !h.v6 && h.l4 > 0 {
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^checksum(b[:h.l4]))
		h, _ = headersOf(b)
	}
	if at := h.sumAt(); at > 0 {
		b[at], b[at+1] = 0, 0
		sum := ^h.sum(b)
		if sum == 0 && h.proto == objects.UDP {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(b[at:], sum)
	}
}

// portsOf are those of a packet of TCP or UDP.
func (h headers) portsOf(b []byte) (src, dst uint16, ok bool) {
	if h.proto != objects.TCP && h.proto != objects.UDP || h.l4 == 0 || h.later || h.l4+4 > len(b) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(b[h.l4:]), binary.BigEndian.Uint16(b[h.l4+2:]), true
}
