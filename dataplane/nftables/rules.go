package nftables

import (
	"encoding/binary"
	"time"

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

// tuple says which destination a key is made of.
type tuple bool

const (
	current  tuple = false // the packet's
	original tuple = true  // what the client meant, which conntrack knows after a dnat
)

// key loads a frontend's key and returns the next register: address . protocol
// . port, or protocol . port for a node port.
func (f family) key(port bool, from tuple) (rule, uint32) {
	reg := uint32(reg0)
	var r rule
	if !port {
		if from == original {
			r = append(r, ctOriginal{f.ctDst, reg})
		} else {
			r = append(r, f.addr(f.daddr, reg))
		}
		reg += f.regs()
	}
	r = append(r, load(expr.MetaKeyL4PROTO, reg))
	if from == original {
		return append(r, ctOriginal{unix.NFT_CT_PROTO_DST, reg + 1}), reg + 2
	}
	return append(r, dport(reg+1)), reg + 2
}

// in matches what register 0 and the following hold against a set.
func (f family) in(set setID) expression {
	return wrapped{&expr.Lookup{SourceRegister: reg0, SetName: f.sets[set].name}}
}

func (f family) notIn(set setID) expression {
	return wrapped{&expr.Lookup{SourceRegister: reg0, SetName: f.sets[set].name, Invert: true}}
}

func (f family) mapped(set setID) expression {
	return wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: reg0, IsDestRegSet: true, SetName: f.sets[set].name}}
}

// gotoMap ends a rule with the verdict of the packet's priority in a vmap.
func (f family) gotoMap(set setID) rule {
	return rule{load(expr.MetaKeyPRIORITY, reg0),
		wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: f.sets[set].name}}}
}

// learn jumps to where clients are remembered, if any frontend of the packet's
// protocol has affinity.
func (f family) learn() rule {
	return rule{load(expr.MetaKeyL4PROTO, reg0),
		wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: f.sets[setLearning].name}}}
}

func setPriority() expression {
	return wrapped{&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: reg0}}
}

func clearPriority() rule { return clearPriorityBy(reg0) }

// clearPriorityBy clears the priority with a register that is not in use.
func clearPriorityBy(reg uint32) rule {
	return rule{wrapped{&expr.Immediate{Register: reg, Data: make([]byte, 4)}},
		wrapped{&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: reg}}}
}

// lookup puts what a map has for a frontend's key into the packet's priority. A
// packet without an element leaves the rule here, its priority untouched.
func (f family) lookup(set setID, port bool, from tuple) rule {
	r, _ := f.key(port, from)
	return append(r, f.mapped(set), setPriority())
}

// fromLocalPod matches in prerouting; nothing comes in where the node itself sends.
func (f family) fromLocalPod() rule {
	if f.link == "" {
		return rule{f.addr(f.saddr, reg0), f.in(setLocalPods)}
	}
	return f.cameBy(expr.CmpOpEq)
}

// offCluster are rules in postrouting, of which one matches what is not from a local pod.
// Since Linux 5.5 the link by which a packet came is known there, but for two kinds that came
// by none: the node's own, and those from a bridge's port to another with br_netfilter. These
// are local pods', told by the link that is the bridge.
func (f family) offCluster() []rule {
	if f.link == "" {
		return []rule{{f.addr(f.saddr, reg0), f.notIn(setLocalPods)}}
	}
	byAnother := rule{load(expr.MetaKeyIIF, reg0), wrapped{&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: native(0)}}}
	return []rule{cat(byAnother, f.cameBy(expr.CmpOpNeq)), fromSelf()}
}

func (f family) cameBy(op expr.CmpOp) rule {
	return rule{load(expr.MetaKeyIIFNAME, reg0), wrapped{&expr.Cmp{Op: op, Register: reg0, Data: f.link.Pattern()}}}
}

func (f family) toNode() rule { return rule{f.addr(f.daddr, reg0), f.in(setNodeAddrs)} }

func (f family) meantNode() rule { return rule{ctOriginal{f.ctDst, reg0}, f.in(setNodeAddrs)} }

func verdict(k expr.VerdictKind) rule { return rule{wrapped{&expr.Verdict{Kind: k}}} }

func jumpTo(chain string) rule {
	return rule{wrapped{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}}
}

func goTo(chain string) rule {
	return rule{wrapped{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}}
}

// cat is a rule of parts.
func cat(parts ...rule) rule {
	var r rule
	for _, p := range parts {
		r = append(r, p...)
	}
	return r
}

// dispatch looks the packet up in a view and goes to the chain of its class.
// Conditions that cost more than the lookup come after it: a rule that leaves
// the priority behind is followed by one for the same frontend in another view.
func (f family) dispatch(v view, conditions ...rule) rule {
	return cat(f.lookup(v.fronts(), v.isPort(), current), cat(conditions...), f.gotoMap(v.classes()))
}

// pick chooses a slot of n and sends the connection there.
func (f family) pick(v view, n uint32) rule {
	return cat(rule{wrapped{&expr.Numgen{Register: reg0, Modulus: n, Type: unix.NFT_NG_RANDOM}}, setPriority()}, f.toSlot(v))
}

// firstSlot sends the connection to slot 0.
func (f family) firstSlot(v view) rule { return cat(clearPriority(), f.toSlot(v)) }

// toSlot ends a rule with the chain that sends the connection to the slot whose
// number is in the packet's priority. It returns if there is no such slot.
func (f family) toSlot(v view) rule {
	key, next := f.key(v.isPort(), current)
	return append(key,
		wrapped{&expr.Hash{SourceRegister: reg0, DestRegister: reg0, Length: 4 * (next - reg0), Modulus: slotParts, Seed: hashSeed, Type: expr.HashTypeJenkins}},
		wrapped{&expr.Lookup{SourceRegister: reg0, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: f.sets[v.parts()].name}})
}

// slotChain looks a slot up in one part and sends the connection there. The
// number is taken before the priority is cleared; nft prints the two the other
// way round.
func (f family) slotChain(v view, part int) chain {
	key, next := f.key(v.isPort(), current)
	return chain{name: v.slotsChain(part), rules: []rule{cat(
		key, rule{load(expr.MetaKeyPRIORITY, next)}, clearPriorityBy(next+1),
		rule{f.mapped(v.slots(part)),
			wrapped{&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.proto), RegAddrMin: reg0, RegProtoMin: reg0 + f.regs()}}})}}
}

// affinitySlot sends a client that is remembered where it was before. The memory holds
// an endpoint's number; the view has a slot of that number only while it uses
// the endpoint, so a miss at any of the lookups leads to the next rule.
func (f family) affinitySlot(v view) rule {
	return cat(f.lookup(groupSet(v.isPort()), v.isPort(), current), f.client(), rule{f.mapped(setAffinity), setPriority()}, f.toSlot(v))
}

// dropAffinity makes room for another endpoint: an update of an element keeps its data.
func (f family) dropAffinity(v view) rule {
	data := reg0 + f.regs() + 1
	return cat(f.lookup(groupSet(v.isPort()), v.isPort(), current), f.client(), rule{load(expr.MetaKeyPRIORITY, data),
		wrapped{&expr.Dynset{SrcRegKey: reg0, SrcRegData: data, SetName: f.sets[setAffinity].name, Operation: dynsetDelete}}})
}

// client is the key of the memory: source address . group, the group being in
// the packet's priority.
func (f family) client() rule {
	return rule{f.addr(f.saddr, reg0), load(expr.MetaKeyPRIORITY, reg0+f.regs())}
}

// remember notes where a connection was sent to: the packet has the endpoint's
// address by now, and its number is computed from that (endpointNumber).
func (f family) remember(port bool, timeout time.Duration) rule {
	data := reg0 + 2*f.regs() + 2 // past both keys
	return cat(f.lookup(groupSet(port), port, original),
		rule{f.addr(f.daddr, reg0), dport(reg0 + f.regs()), wrapped{&expr.Hash{SourceRegister: reg0, DestRegister: data,
			Length: f.addrLen + 4, Modulus: numberCount, Offset: numberBase, Seed: hashSeed, Type: expr.HashTypeJenkins}}},
		f.client(), rule{wrapped{&expr.Dynset{SrcRegKey: reg0, SrcRegData: data, SetName: f.sets[setAffinity].name,
			Operation: dynsetUpdate, Timeout: timeout}}},
		clearPriority(), verdict(expr.VerdictReturn))
}

// Operations of dynset (enum nft_dynset_ops).
const (
	dynsetUpdate = 1
	dynsetDelete = 2 // Linux 5.4
)

func groupSet(port bool) setID {
	if port {
		return setGroupPorts
	}
	return setGroups
}

func isTCP() rule {
	return rule{load(expr.MetaKeyL4PROTO, reg0), wrapped{&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{unix.IPPROTO_TCP}}}}
}

func (f family) reject() rule {
	return rule{wrapped{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreach}}}
}

// ctBits matches bits of a ct key: all zero, or not all zero.
func ctBits(key expr.CtKey, mask uint32, op expr.CmpOp) rule {
	return rule{wrapped{&expr.Ct{Key: key, Register: reg0}},
		wrapped{&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: native(mask), Xor: native(0)}},
		wrapped{&expr.Cmp{Op: op, Register: reg0, Data: native(0)}}}
}

const (
	ctStatusDNAT = 1 << 5 // IPS_DST_NAT of nf_conntrack_common.h
	ctStateNew   = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW)
)

func isNew() rule            { return ctBits(expr.CtKeySTATE, ctStateNew, expr.CmpOpNeq) }
func notTaken() rule         { return ctBits(expr.CtKeySTATUS, ctStatusDNAT, expr.CmpOpEq) }
func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
