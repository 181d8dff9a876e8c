package nftables

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// sayer follows a rule's expressions as the kernel does, with words in the registers in
// place of values, and gathers nft's statements.
type sayer struct {
	f      family
	regs   map[uint32]held
	out    []string
	beyond bool // nft 1.0.6 has no way to say that
}

// held is what a register holds, and how many it takes.
type held struct {
	text string
	n    uint32
}

// say is a rule in nft's words, and whether nft reads them. Its language has no ports of the
// original direction in a concatenation, no hash that a verdict map is asked for, and no way to
// keep a value that it is about to overwrite; netlink has. And it aborts (1.0.6) where a map is
// to lose an IPv6 client.
func (f family) say(r rule) (text string, reads bool) {
	s := sayer{f: f, regs: map[uint32]held{}}
	for _, e := range r {
		switch e := e.(type) {
		case ctOriginal:
			if e.key == f.ctDst {
				s.hold(e.reg, "ct original "+f.text+" daddr", f.regs())
			} else {
				s.hold(e.reg, "ct original proto-dst", 1)
				s.beyond = true
			}
		case wrapped:
			s.expression(e.Any)
		}
	}
	return strings.Join(s.out, " "), !s.beyond
}

func (s *sayer) hold(reg uint32, text string, n uint32) { s.regs[reg] = held{text, n} }

func (s *sayer) tell(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

// concat is what n registers hold, from the first.
func (s *sayer) concat(reg, n uint32) string {
	var parts []string
	for end := reg + n; reg < end; {
		h, ok := s.regs[reg]
		if !ok {
			return fmt.Sprintf("(register %d is empty)", reg) // nft will not read that
		}
		parts, reg = append(parts, h.text), reg+h.n
	}
	return strings.Join(parts, " . ")
}

// key is what a set is asked for.
func (s *sayer) key(reg uint32, set string) string {
	for _, spec := range s.f.sets {
		if spec.name != set {
			continue
		}
		var n uint32
		for _, t := range spec.key {
			n += padded(t.Bytes) / 4
		}
		return s.concat(reg, n)
	}
	return "(no set " + set + ")"
}

func (s *sayer) expression(e expr.Any) {
	switch e := e.(type) {
	case *expr.Payload:
		s.payload(e)
	case *expr.Meta:
		s.meta(e)
	case *expr.Ct:
		s.hold(e.Register, map[expr.CtKey]string{expr.CtKeySTATE: "ct state", expr.CtKeySTATUS: "ct status"}[e.Key], 1)
	case *expr.Bitwise:
		s.hold(e.DestRegister, s.regs[e.SourceRegister].text+" "+ctBitNames[binary.NativeEndian.Uint32(e.Mask)], 1)
	case *expr.Fib:
		s.hold(e.Register, "fib saddr type", 1)
	case *expr.Cmp:
		s.cmp(e)
	case *expr.Numgen:
		s.hold(e.Register, fmt.Sprintf("numgen random mod %d", e.Modulus), 1)
	case *expr.Hash:
		text := fmt.Sprintf("jhash %s mod %d seed 0x%x", s.concat(e.SourceRegister, (e.Length+3)/4), e.Modulus, e.Seed)
		if e.Offset > 0 {
			text += fmt.Sprintf(" offset %d", e.Offset)
		}
		s.hold(e.DestRegister, text, 1)
	case *expr.Immediate:
		s.hold(e.Register, "0:0", 1)
	case *expr.Lookup:
		s.lookup(e)
	case *expr.Dynset:
		s.dynset(e)
	case *expr.NAT:
		s.tell("dnat %s to %s", s.f.text, s.regs[e.RegAddrMin].text)
	case *expr.Masq:
		s.tell("masquerade fully-random")
	case *expr.Reject:
		s.reject(e)
	case *expr.Verdict:
		s.verdict(e)
	default:
		s.tell("(%T)", e)
	}
}

// ctBitNames are those of bits of those that rules look at.
var ctBitNames = map[uint32]string{ctStatusDNAT: "dnat", ctStateNew: "new"} // const

func (s *sayer) payload(e *expr.Payload) {
	switch {
	case e.Base == expr.PayloadBaseTransportHeader:
		s.hold(e.DestRegister, "th dport", 1)
	case e.Offset == s.f.saddr:
		s.hold(e.DestRegister, s.f.text+" saddr", s.f.regs())
	default:
		s.hold(e.DestRegister, s.f.text+" daddr", s.f.regs())
	}
}

func (s *sayer) meta(e *expr.Meta) {
	name := map[expr.MetaKey]string{expr.MetaKeyL4PROTO: "meta l4proto", expr.MetaKeyPRIORITY: "meta priority", expr.MetaKeyOIF: "oif", expr.MetaKeyIIF: "iif", expr.MetaKeyIIFNAME: "iifname"}[e.Key]
	if !e.SourceRegister {
		s.hold(e.Register, name, 1)
		return
	}
	for reg, h := range s.regs {
		s.beyond = s.beyond || reg != e.Register && h.text == name
	}
	s.tell("%s set %s", name, s.regs[e.Register].text)
}

func (s *sayer) cmp(e *expr.Cmp) {
	text := s.regs[e.Register].text
	value := binary.NativeEndian.Uint32(append(append([]byte{}, e.Data...), 0, 0, 0)[:4])
	switch not := map[bool]string{true: "!= ", false: ""}[e.Op == expr.CmpOpNeq]; {
	case strings.HasPrefix(text, "ct "): // of bits: all zero, or not
		key, name := text[:strings.LastIndex(text, " ")], text[strings.LastIndex(text, " ")+1:]
		if e.Op == expr.CmpOpEq {
			name = "! " + name
		}
		s.tell("%s %s", key, name)
	case text == "iifname":
		name := strings.TrimRight(string(e.Data), "\x00")
		if len(e.Data) < unix.IFNAMSIZ {
			name += "*"
		}
		s.tell("iifname %s%q", not, name)
	case text == "meta l4proto":
		s.tell("meta l4proto %s%s", not, map[uint32]string{unix.IPPROTO_TCP: "tcp"}[value])
	case text == "fib saddr type":
		s.tell("%s %s%s", text, not, map[uint32]string{unix.RTN_LOCAL: "local"}[value])
	default: // an interface, by its number
		s.tell("%s %s%d", text, not, value)
	}
}

func (s *sayer) lookup(e *expr.Lookup) {
	key := s.key(e.SourceRegister, e.SetName)
	switch {
	case !e.IsDestRegSet && e.Invert:
		s.tell("%s != @%s", key, e.SetName)
	case !e.IsDestRegSet:
		s.tell("%s @%s", key, e.SetName)
	case e.DestRegister == unix.NFT_REG_VERDICT:
		s.tell("%s vmap @%s", key, e.SetName)
		s.beyond = s.beyond || strings.HasPrefix(key, "jhash ")
	default:
		s.hold(e.DestRegister, key+" map @"+e.SetName, 1)
	}
}

func (s *sayer) dynset(e *expr.Dynset) {
	key := s.key(e.SrcRegKey, e.SetName)
	if e.Operation == dynsetDelete {
		s.tell("delete @%s { %s : %s }", e.SetName, key, s.regs[e.SrcRegData].text)
		s.beyond = s.beyond || s.f.v6
		return
	}
	s.tell("update @%s { %s timeout %ds : %s }", e.SetName, key, e.Timeout/time.Second, s.regs[e.SrcRegData].text)
}

func (s *sayer) reject(e *expr.Reject) {
	switch {
	case e.Type == unix.NFT_REJECT_TCP_RST:
		s.tell("reject with tcp reset")
	case s.f.v6:
		s.tell("reject with icmpv6 type port-unreachable")
	default:
		s.tell("reject with icmp type port-unreachable")
	}
}

func (s *sayer) verdict(e *expr.Verdict) {
	switch e.Kind {
	case expr.VerdictJump:
		s.tell("jump %s", e.Chain)
	case expr.VerdictGoto:
		s.tell("goto %s", e.Chain)
	case expr.VerdictReturn:
		s.tell("return")
	case expr.VerdictDrop:
		s.tell("drop")
	}
}
