package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// describe is an element much as nft prints it, with the class spelled out.
func (e Element) describe(f family) string {
	spec := f.sets[e.id.set]
	set := spec.name
	if v, part, ok := e.id.set.ofSlots(); ok && part == slotPart(e.id.key[:max(0, len(e.id.key)-4)]) {
		set = v.slotsName() // a part is worth a word only if it is the wrong one
	}
	line := fmt.Sprintf("%s %s %s", f.text, set, keyText(e.id.key, spec))
	if e.id.end {
		line += " (end)"
	}
	switch {
	case spec.isVerdict():
		line += " : " + spec.verb() + " " + e.val
	case spec.isMap():
		line += " : " + fields(e.val, spec.data)
	}
	return line
}

func (s setSpec) verb() string {
	if s.jump {
		return "jump"
	}
	return "goto"
}

func keyText(key string, spec setSpec) string {
	if !spec.ranges {
		return fields(key, spec.key)
	}
	n := len(key) / 2
	from, to := fields(key[:n], spec.key), fields(key[n:], spec.key)
	return from + "-" + to[strings.LastIndex(to, " ")+1:]
}

// fields prints the concatenated values of an element's key or data.
func fields(raw string, types []lib.SetDatatype) string {
	var out []string
	b := []byte(raw)
	for _, t := range types {
		n := int(padded(t.Bytes))
		if len(types) == 1 {
			n = int(t.Bytes)
		}
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
	case number.Name:
		return fmt.Sprint(binary.NativeEndian.Uint32(b))
	case lib.TypeClassID.Name:
		return parseClass(string(b)).chainName()
	}
	return fmt.Sprintf("%x", b)
}

// padded is the room a value takes in a concatenation: whole registers.
func padded(n uint32) uint32 { return (n + 3) &^ 3 }
