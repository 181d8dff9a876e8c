//go:build linux

package commits

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// FuzzMessage: whatever the kernel tells of nftables, a message is not both about a table and the end of a
// transaction, and is about that alone whose name it begins with; one that says a number or a name says it
// whatever follows.
func FuzzMessage(f *testing.F) {
	told := func(typ uint16, proto byte, table string, generation uint32) netlink.Message {
		attrs := netlink.NewAttributeEncoder()
		attrs.ByteOrder = binary.BigEndian
		if typ == unix.NFT_MSG_NEWGEN {
			attrs.Uint32(unix.NFTA_GEN_ID, generation)
		} else {
			attrs.String(unix.NFTA_TABLE_NAME, table)
		}
		b, err := attrs.Encode()
		if err != nil {
			f.Fatal(err)
		}
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | typ)}, Data: append([]byte{proto, 0, 0, 0}, b...)}
	}
	for _, typ := range []uint16{unix.NFT_MSG_NEWGEN, unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELSETELEM} {
		whole := told(typ, unix.NFPROTO_IPV4, "plumbline", 7).Data
		f.Add(typ, whole, "plumbline", uint32(7))
		f.Add(typ, whole[:len(whole)-2], "plumbline", uint32(7))
		f.Add(typ, whole[:headerSize-1], "plumbline", uint32(0))
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte, table string, generation uint32) {
		if table == "" || len(table) > 1000 || strings.Contains(table, "\x00") {
			return
		}
		l := &Listener{table: table}
		m := netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | typ&0xff)}, Data: data}
		about := l.about(m)
		if _, end := ends(m); end && about {
			t.Errorf("%x ends a transaction and is about %q", data, table)
		}
		if about && !strings.HasPrefix(string(data[headerSize+unix.SizeofNlAttr:]), table) {
			t.Errorf("%x is about %q", data, table)
		}
		for _, proto := range []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6, unix.NFPROTO_INET} {
			m := told(unix.NFT_MSG_NEWSETELEM, proto, table, 0)
			m.Data = append(m.Data, data...)
			// What cannot be read as attributes is nobody's.
			_, err := netlink.NewAttributeDecoder(m.Data[headerSize:])
			if want := proto != unix.NFPROTO_INET && err == nil; l.about(m) != want || (&Listener{table: table + "x"}).about(m) || l.about(told(unix.NFT_MSG_NEWSETELEM, proto, table+"x", 0)) {
				t.Errorf("%x is about %q: %t", m.Data, table, !want)
			}
		}
		if got, end := ends(told(unix.NFT_MSG_NEWGEN, 0, "", generation)); !end || got != generation {
			t.Errorf("generation %d is told, and %d read (%t)", generation, got, end)
		}
	})
}
