package conntrack

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// FuzzParsePart: whatever a socket reads, a flow that is taken is whole, and asking for it again
// or deleting it names that flow.
func FuzzParsePart(f *testing.F) {
	at := netip.MustParseAddrPort
	for _, known := range []flow{
		{protocol: objects.TCP, src: at("192.0.2.1:40000"), dst: at("10.96.0.1:80"), from: at("10.0.0.1:8080"), back: at("192.0.2.1:40000"), id: 7},
		{protocol: objects.UDP, src: at("[fd00::1]:40000"), dst: at("[fd00::2]:53"), from: at("[fd00::3]:53"), back: at("[fd00::1]:40000"), id: 9},
	} {
		part := message(ctNew, 0, 1, deleteRequest(known))
		f.Add(part)
		f.Add(append(part, message(unix.NLMSG_DONE, 0, 1, []byte{0, 0, 0, 0})...))
		f.Add(append(part, message(unix.NLMSG_ERROR, unix.NLM_F_DUMP_INTR, 1, []byte{0xfe, 0xff, 0xff, 0xff})...))
		f.Add(part[:len(part)-5])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = parsePart(b, 1, func(got flow) {
			if !got.src.IsValid() || !got.dst.IsValid() || !got.from.IsValid() || !got.back.IsValid() {
				t.Fatalf("a flow without an end: %+v", got)
			}
			if got.String() == "" {
				t.Error("a flow without words")
			}
			again, ok := parseFlow(deleteRequest(got))
			if sameFamily(got) && (!ok || again.src != got.src || again.dst != got.dst || again.protocol != got.protocol || again.id != got.id) {
				t.Errorf("to delete it, %+v is asked for as %+v", got, again)
			}
		})
	})
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
