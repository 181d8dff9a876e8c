package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// fields prints the concatenated values of an element's key or data.
func fields(raw string, types []lib.SetDatatype) string {
	var out []string
	b := []byte(raw)
	for _, t := range types {
		n := int(padded(t.Bytes))
		if len(b) < n {
			return fmt.Sprintf("%x", raw)
		}
		out = append(out, field(b[:n], t))
		b = b[n:]
	}
	return strings.Join(out, " . ")
}

func field(b []byte, t lib.SetDatatype) string {
	switch t.Name {
	case lib.TypeIPAddr.Name, lib.TypeIP6Addr.Name:
		a, _ := netip.AddrFromSlice(b)
		return a.String()
	case lib.TypeInetProto.Name:
		return objects.Protocol(b[0]).String()
	case lib.TypeInetService.Name:
		return fmt.Sprint(binary.BigEndian.Uint16(b))
	case slotIndex.Name:
		return fmt.Sprint(binary.NativeEndian.Uint32(b))
	case lib.TypeClassID.Name:
		return className(string(b))
	}
	return fmt.Sprintf("%x", b)
}

func className(raw string) string {
	switch raw {
	case classReject.bytes():
		return "reject"
	case classDrop.bytes():
		return "drop"
	}
	return chainName(class{view(raw[1]), binary.BigEndian.Uint16([]byte(raw[2:]))})
}

// chainName is the chain a class selects.
func chainName(c class) string {
	switch c {
	case classReject:
		return "reject"
	case classDrop:
		return "drop"
	}
	return fmt.Sprintf("%s-%d", c.view.name(), c.n)
}

// padded is the room a value takes in a concatenation: whole registers.
func padded(n uint32) uint32 { return (n + 3) &^ 3 }
