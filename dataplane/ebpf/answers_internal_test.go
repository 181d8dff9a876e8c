package ebpf

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ledBy makes an answer of the kernel's about a socket: its head, what else is told of it, and what a map
// keeps of it.
func ledBy(t testing.TB, head, also []byte, p plumbPeer) []byte {
	t.Helper()
	value, err := binary.Append(nil, binary.NativeEndian, p)
	if err != nil {
		t.Fatal(err)
	}
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(1, also)
	attrs.Nested(diagStorages, func(all *netlink.AttributeEncoder) error {
		all.Nested(diagStorage, func(one *netlink.AttributeEncoder) error {
			one.Uint32(1, 7) // the map's number
			one.Bytes(diagStorageValue, value)
			return nil
		})
		return nil
	})
	told, err := attrs.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(head), told...)
}

// FuzzLed: whatever sock_diag answers, a socket is led to an endpoint only if it is connected to it and the
// answer says that a map keeps it; one that is says so whatever else is told of it, and it is asked for, to
// be ended, by the id that it was told by.
func FuzzLed(f *testing.F) {
	head := make([]byte, sizeofAnswer)
	copy(head[atIDAnswered:], []byte{0x9c, 0x40, 0x1f, 0x90, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 244, 1, 2})
	id := answered(head)
	for _, v6 := range []bool{false, true} {
		to := id.to(familyFor(v6))
		whole := ledBy(f, head, []byte("more"), plumbPeer{Addr: to.addr, Port: to.port})
		if _, at, err := led(whole, familyFor(v6)); err != nil || !at.IsValid() {
			f.Fatalf("a seed is led to %s: %v", at, err)
		}
		f.Add(whole, v6)
		f.Add(whole[:len(whole)-3], v6)
		f.Add(whole[:sizeofAnswer-1], v6)
		f.Add(ledBy(f, head, nil, plumbPeer{Addr: to.addr, Port: to.port + 1}), v6)
	}
	f.Fuzz(func(t *testing.T, answer []byte, v6 bool) {
		family := familyFor(v6)
		id, to, err := led(answer, family)
		if id == nil {
			if to.IsValid() || err == nil && len(answer) >= sizeofAnswer {
				t.Errorf("of %d bytes is read %s, %v", len(answer), to, err)
			}
			return
		}
		if request := diagRequest(family, unix.IPPROTO_TCP, id); !bytes.Equal(request[atID:], id) || len(request) != atID+sizeofID {
			t.Errorf("socket %x is asked for as %x", id, request)
		}
		if id.cookie() != binary.NativeEndian.Uint64(id[40:]) {
			t.Errorf("the cookie of %x is %x", id, id.cookie())
		}
		at := id.to(family)
		if to.IsValid() {
			want, _ := binary.Append(nil, binary.NativeEndian, at.addr)
			if to != netip.AddrPortFrom(fromAddr(at.addr), swapped(at.port)) || !bytes.Contains(answer[sizeofAnswer:], want) {
				t.Errorf("led to %s, connected to %v, by %x", to, at, answer[sizeofAnswer:])
			}
		}
		if at.port == 0 {
			return
		}
		_, to, err = led(ledBy(t, answer[:sizeofAnswer], answer[sizeofAnswer:min(len(answer), 1<<12)], plumbPeer{Addr: at.addr, Port: at.port}), family)
		if want := netip.AddrPortFrom(fromAddr(at.addr), swapped(at.port)); err != nil || to != want {
			t.Errorf("one that is connected to %s is led to %s: %v", want, to, err)
		}
	})
}

func familyFor(v6 bool) uint8 {
	if v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
