package conntrack

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// FuzzParsePart: whatever a socket reads, a flow that is taken is whole, and asking for it again
// or deleting it names that flow. One of whose ports nothing is said is not taken.
func FuzzParsePart(f *testing.F) {
	at := netip.MustParseAddrPort
	for _, known := range []flow{
		{protocol: objects.TCP, src: at("192.0.2.1:40000"), dst: at("10.96.0.1:80"), from: at("10.0.0.1:8080"), back: at("192.0.2.1:40000"), id: 7},
		{protocol: objects.UDP, src: at("[fd00::1]:40000"), dst: at("[fd00::2]:53"), from: at("[fd00::3]:53"), back: at("[fd00::1]:40000"), id: 9},
	} {
		part := message(ctNew, 0, 1, told(known))
		if _, _, err := parsePart(part, 1, func(got flow) { known.id -= got.id }); err != nil || known.id != 0 {
			f.Fatalf("a seed is no flow: %v", err)
		}
		f.Add(part)
		f.Add(append(part, message(unix.NLMSG_DONE, 0, 1, []byte{0, 0, 0, 0})...))
		f.Add(append(part, message(unix.NLMSG_ERROR, unix.NLM_F_DUMP_INTR, 1, []byte{0xfe, 0xff, 0xff, 0xff})...))
		f.Add(part[:len(part)-5])
		for _, end := range []struct {
			kind uint16
			at   netip.AddrPort
		}{{ctaProtoSrcPort, known.src}, {ctaProtoDstPort, known.dst}, {ctaProtoSrcPort, known.from}, {ctaProtoDstPort, known.back}} {
			for _, instead := range []uint16{ctaProtoSrcPort, ctaProtoDstPort, 4} { // of ICMP
				f.Add(bytes.Replace(part, put(nil, end.kind, be16(end.at.Port())), put(nil, instead, be16(end.at.Port())), 1))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = parsePart(b, 1, func(got flow) {
			if !got.src.IsValid() || !got.dst.IsValid() || !got.from.IsValid() || !got.back.IsValid() {
				t.Fatalf("a flow without an end: %+v", got)
			}
			if got.String() == "" {
				t.Error("a flow without words")
			}
			again, ok := parseFlow(told(got))
			if again.state = got.state; sameFamily(got) && (!ok || again != got) {
				t.Errorf("to delete it, %+v is asked for as %+v", got, again)
			}
		})
		first := b[min(unix.NLMSG_HDRLEN, len(b)):]
		if got, ok := parseFlow(first); ok && lacksPort(first) {
			t.Errorf("%+v has a port that nothing says", got)
		}
	})
}

// told is a flow as the kernel tells of it, its answers and id in the words that it is deleted by.
func told(f flow) []byte {
	return slices.Concat(nfgen(f.dst.Addr().Is6()), tuple(ctaTupleOrig, f.protocol, f.src, f.dst), deleteRequest(f)[len(nfgen(false)):])
}

// lacksPort tells whether some tuple of an entry is without its source's port, or its destination's.
func lacksPort(entry []byte) bool {
	for kind, tuple := range attributes(entry[len(nfgen(false)):]) {
		if kind != ctaTupleOrig && kind != ctaTupleReply {
			continue
		}
		said := map[uint16]bool{}
		for kind, proto := range attributes(tuple) {
			for part, data := range attributes(proto) {
				said[part] = said[part] || kind == ctaTupleProto && len(data) == 2
			}
		}
		if !said[ctaProtoSrcPort] || !said[ctaProtoDstPort] {
			return true
		}
	}
	return false
}

// sameFamily is what the kernel's flows are.
func sameFamily(f flow) bool {
	return f.src.Addr().Is6() == f.dst.Addr().Is6() && f.from.Addr().Is6() == f.src.Addr().Is6() && f.back.Addr().Is6() == f.src.Addr().Is6()
}

func message(kind, flags uint16, sequence uint32, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(b, kind), flags)
	b = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(b, sequence), 0)
	return append(b, body...)
}
