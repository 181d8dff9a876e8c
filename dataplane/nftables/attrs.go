package nftables

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// buffer builds netlink attributes.
type buffer struct{ bytes []byte }

func (b *buffer) attr(typ uint16, data []byte) {
	b.head(typ, len(data))
	b.bytes = append(b.bytes, data...)
	b.pad()
}

// text is attr of a string.
func (b *buffer) text(typ uint16, data string) {
	b.head(typ, len(data))
	b.bytes = append(b.bytes, data...)
	b.pad()
}

func (b *buffer) head(typ uint16, n int) {
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, uint16(4+n))
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, typ)
}

func (b *buffer) pad() {
	for len(b.bytes)%4 != 0 {
		b.bytes = append(b.bytes, 0)
	}
}

func (b *buffer) str(typ uint16, s string) {
	b.head(typ, len(s)+1)
	b.bytes = append(append(b.bytes, s...), 0)
	b.pad()
}

func (b *buffer) u32(typ uint16, v uint32) {
	b.head(typ, 4)
	b.bytes = binary.BigEndian.AppendUint32(b.bytes, v)
}

// value is a nested attribute that holds plain data.
func (b *buffer) value(typ uint16, data string) {
	at := b.nest(typ)
	b.text(unix.NFTA_DATA_VALUE, data)
	b.end(at)
}

// nest begins a nested attribute; end(at) closes it.
func (b *buffer) nest(typ uint16) (at int) {
	at = len(b.bytes)
	b.head(typ|unix.NLA_F_NESTED, 0)
	return at
}

func (b *buffer) end(at int) {
	binary.NativeEndian.PutUint16(b.bytes[at:], uint16(len(b.bytes)-at))
}

// attrs calls f for each attribute of a message or of a nest. Bytes that are no
// attribute end it. It works on strings so that what is kept of a large answer
// shares its memory.
func attrs(b string, f func(typ uint16, data string)) {
	for len(b) >= 4 {
		n := int(u16(b))
		if n < 4 || n > len(b) {
			return
		}
		f(u16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

// attr is the first attribute of a type, empty if there is none.
func attr(b string, want uint16) string {
	for len(b) >= 4 {
		n := int(u16(b))
		if n < 4 || n > len(b) {
			return ""
		}
		if u16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == want {
			return b[4:n]
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return ""
}

func u16(b string) uint16 { return binary.NativeEndian.Uint16([]byte(b[:2])) }

// be32 is an attribute's number, 0 if it is not there.
func be32(b string) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32([]byte(b[:4]))
}

// name is an attribute's string without its end.
func name(b string) string {
	for i := range len(b) {
		if b[i] == 0 {
			return b[:i]
		}
	}
	return b
}

// attrKeyEnd is NFTA_SET_ELEM_KEY_END, which golang.org/x/sys does not name
// (include/uapi/linux/netfilter/nf_tables.h, Linux 5.6).
const attrKeyEnd = 10
