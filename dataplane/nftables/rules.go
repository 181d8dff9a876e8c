package nftables

import (
	"encoding/binary"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rule is a list of expressions in the kernel's order of evaluation.
type rule []expression

// expression is one expression as netlink wants it. The library's expressions
// are wrapped; one of them had to be written here (ctOriginal).
type expression interface {
	encode(proto byte) ([]byte, error)
}

type wrapped struct{ expr.Any }

func (w wrapped) encode(proto byte) ([]byte, error) { return expr.Marshal(proto, w.Any) }

// ctOriginal loads a field of the connection's original direction. The library
// sends the direction only with the old keys (NFT_CT_DST), whose length nft
// 1.0.6 does not know: it aborts when it lists such a key in a concatenation.
type ctOriginal struct {
	key uint32
	reg uint32
}

func (c ctOriginal) encode(byte) ([]byte, error) {
	var b buffer
	b.str(unix.NFTA_EXPR_NAME, "ct")
	at := b.nest(unix.NFTA_EXPR_DATA)
	b.u32(unix.NFTA_CT_KEY, c.key)
	b.u32(unix.NFTA_CT_DREG, c.reg)
	b.attr(unix.NFTA_CT_DIRECTION, []byte{0}) // IP_CT_DIR_ORIGINAL
	b.end(at)
	return b.bytes, nil
}

// Registers: 4-byte register 0 is number 8. A concatenated key begins there, and
// each field takes as many registers as it needs.
const reg0 = 8

func (f family) regs() uint32 { return f.addrLen / 4 }

func load(key expr.MetaKey, reg uint32) expression {
	return wrapped{&expr.Meta{Key: key, Register: reg}}
}

func (f family) addr(offset, reg uint32) expression {
	return wrapped{&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.addrLen}}
}

func dport(reg uint32) expression {
	return wrapped{&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}}
}

// frontKey loads a view's key from the packet and returns the next register.
func (f family) frontKey(v view) (rule, uint32) {
	reg := uint32(reg0)
	var r rule
	if v == viewServices {
		r = append(r, f.addr(f.daddr, reg))
		reg += f.regs()
	}
	r = append(r, load(expr.MetaKeyL4PROTO, reg), dport(reg+1))
	return r, reg + 2
}

func (f family) in(set setID, invert bool) expression {
	return wrapped{&expr.Lookup{SourceRegister: reg0, SetName: f.specs()[set].name, Invert: invert}}
}

func (f family) mapped(set setID) expression {
	return wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: reg0, IsDestRegSet: true, SetName: f.specs()[set].name}}
}

func setPriority() expression {
	return wrapped{&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: reg0}}
}

// dispatch looks the packet up in a view and goes to the chain of its class. A
// packet without an element leaves the rule at the lookup, before its priority
// is touched.
func (f family) dispatch(v view, conditions ...expression) rule {
	key, _ := f.frontKey(v)
	r := append(rule(conditions), key...)
	return append(r, f.mapped(v.fronts()), setPriority(), load(expr.MetaKeyPRIORITY, reg0),
		wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: f.specs()[setClasses].name}})
}

// toNode matches packets to an address that node ports are served at.
func (f family) toNode() []expression {
	return []expression{f.addr(f.daddr, reg0), f.in(setNodeAddrs, false)}
}

func (f family) fromLocalPod() []expression {
	return []expression{f.addr(f.saddr, reg0), f.in(setLocalPods, false)}
}

// pick chooses a slot of n and sends the connection there.
func (f family) pick(v view, n uint32) rule {
	r := rule{wrapped{&expr.Immediate{Register: reg0, Data: make([]byte, 4)}}, setPriority()}
	key, next := f.frontKey(v)
	r = append(r, key...)
	return append(r,
		wrapped{&expr.Numgen{Register: next, Modulus: n, Type: unix.NFT_NG_RANDOM}},
		f.mapped(v.slots()),
		wrapped{&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.proto), RegAddrMin: reg0, RegProtoMin: reg0 + f.regs()}})
}

func verdict(k expr.VerdictKind) expression { return wrapped{&expr.Verdict{Kind: k}} }

// classRules are the rules of the chain of a class. In a chain for n endpoints
// the second rule serves a packet whose lookups fell on both sides of a change:
// the frontend still had n slots, and the chosen one is gone. Slot 0 is the last
// to go. The third is for a frontend that went altogether: silence, so that the
// client's next attempt meets the new rules.
func (f family) classRules(c class) []rule {
	switch c {
	case classReject:
		return []rule{
			{load(expr.MetaKeyL4PROTO, reg0), wrapped{&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{unix.IPPROTO_TCP}}},
				wrapped{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}},
			{wrapped{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreach}}},
		}
	case classDrop:
		return []rule{{verdict(expr.VerdictDrop)}}
	}
	return []rule{f.pick(c.view, uint32(c.n)), f.pick(c.view, 1), {verdict(expr.VerdictDrop)}}
}

// chain is a base chain with its rules.
type chain struct {
	name     string
	hook     uint32
	priority int32
	rules    []rule
}

func (f family) baseChains() []chain {
	common := []rule{f.dispatch(viewServices), f.dispatch(viewNodePorts, f.toNode()...)}
	pods := f.dispatch(viewInside, append(f.fromLocalPod(), f.toNode()...)...)
	self := f.dispatch(viewInside, f.toNode()...)
	return []chain{
		{name: "prerouting", hook: unix.NF_INET_PRE_ROUTING, priority: int32(*lib.ChainPriorityNATDest), rules: append([]rule{pods}, common...)},
		{name: "output", hook: unix.NF_INET_LOCAL_OUT, priority: int32(*lib.ChainPriorityNATDest), rules: append([]rule{self}, common...)},
		{name: "postrouting", hook: unix.NF_INET_POST_ROUTING, priority: int32(*lib.ChainPriorityNATSource), rules: f.postrouting()},
	}
}

// postrouting masquerades by the destination the client meant, which conntrack
// knows, so that no mark is needed.
func (f family) postrouting() []rule {
	masq := wrapped{&expr.Masq{FullyRandom: true}}
	origDst := ctOriginal{f.ctDst, reg0}
	origPort := func(reg uint32) []expression {
		return []expression{load(expr.MetaKeyL4PROTO, reg), ctOriginal{unix.NFT_CT_PROTO_DST, reg + 1}}
	}
	nodePort := func(set setID) rule {
		r := rule{origDst, f.in(setNodeAddrs, false)}
		return append(append(r, origPort(reg0)...), f.in(set, false))
	}
	offCluster := append(rule{origDst}, origPort(reg0+f.regs())...)
	offCluster = append(offCluster, f.in(setMasqOffCluster, false), f.addr(f.saddr, reg0), f.in(setClusterPods, true), masq)
	self := append(nodePort(setMasqNode),
		wrapped{&expr.Fib{Register: reg0, FlagSADDR: true, ResultADDRTYPE: true}},
		wrapped{&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: native(unix.RTN_LOCAL)}}, masq)
	return []rule{
		{wrapped{&expr.Ct{Key: expr.CtKeySTATUS, Register: reg0}},
			wrapped{&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: native(ctStatusDNAT), Xor: native(0)}},
			wrapped{&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: native(0)}}, verdict(expr.VerdictReturn)},
		offCluster,
		append(nodePort(setMasqNodePorts), masq),
		self,
		{f.addr(f.saddr, reg0), f.addr(f.daddr, reg0+f.regs()), f.in(setHairpin, false), masq},
	}
}

// ctStatusDNAT is IPS_DST_NAT of nf_conntrack_common.h.
const ctStatusDNAT = 1 << 5

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
