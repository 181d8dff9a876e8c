package userspace

import (
	"encoding/binary"

	lib "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// The bits of the packet's mark that are ours; all others stay as they are. The
// connection's mark (conntrack) has markToProxy for connections with an end in
// this process. Others' marks on the same node: 0x4000 and 0x8000 kube-proxy, 0x2000 the
// CNI plugin portmap, 0x1000 our backend iptables, 0x0f00 and above 0xffff Cilium, Calico,
// 0x80 the AWS VPC CNI, 0xca6c wg-quick, 1 what many a handbook takes.
const (
	markMask    = 0x12
	markToProxy = 0x10 // deliver to this process
	markOurs    = 0x02 // sent by a socket of this process; what comes back is found by it
	markHidden  = 0x12 // the same, and nothing is looked for
)

// ports are where the listeners of a family are, all on the loopback address.
type ports struct {
	tcp, udp, nodeTCP, nodeUDP uint16
	hold                       bool // new connections and flows wait: what begins one is dropped
}

// chain is a chain with its rules; hook is nil for one that is only gone to.
type chain struct {
	name     string
	kind     lib.ChainType
	hook     *lib.ChainHook
	priority lib.ChainPriority
	rules    [][]expr.Any
}

// Priorities: after conntrack (-200), before any dstnat (-100).
const (
	classifyPriority = -151
	mangle           = -150
	nat              = -100
	filter           = 0
)

// chains is the constant part. A chain comes after those it goes to.
func (f family) chains(at ports) []chain {
	// A refusal is of the connection that it answers, and by that one's mark it
	// would come to the process itself.
	out := []chain{{name: "refuse", rules: [][]expr.Any{
		ctMarkSet(0),
		join(f.l4proto(unix.IPPROTO_TCP), is(&expr.Reject{Type: unix.NFT_REJECT_TCP_RST})),
		is(&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreach}),
	}}}
	for v := range viewCount {
		out = append(out, f.viewChain(v))
	}
	classify := [][]expr.Any{
		join(markSet(markOurs), accept()),
		join(onLoopback(expr.CmpOpEq), accept()), // chain output has seen it
		join(f.ownSocket(), f.intercept()),
	}
	unclaimed := [][]expr.Any{
		join(markSet(markMask), accept()),
		join(f.daddrIn(setClusterIPs), verdict(expr.VerdictGoto, "refuse")),
		join(f.daddrIn(setServiceCIDRs), drop()),
	}
	return append(out,
		chain{"classify", lib.ChainTypeFilter, lib.ChainHookPrerouting, classifyPriority, append(classify, f.common(f.fromLocalPod())...)},
		chain{"deliver", lib.ChainTypeFilter, lib.ChainHookPrerouting, mangle, f.deliver(at)},
		chain{"output", lib.ChainTypeRoute, lib.ChainHookOutput, mangle, append([][]expr.Any{
			join(markSet(markOurs), ctMarkSet(markToProxy), accept()),
		}, f.common(nil)...)},
		chain{"unclaimed-forward", lib.ChainTypeFilter, lib.ChainHookForward, filter, unclaimed},
		chain{"unclaimed-output", lib.ChainTypeFilter, lib.ChainHookOutput, filter, unclaimed},
		// Without a chain of this type in the namespace the kernel translates nothing, not
		// even connections that a backend before this one has translated.
		chain{"translated", lib.ChainTypeNAT, lib.ChainHookPrerouting, nat, nil},
	)
}

// common decides about a packet that the process has not sent, in prerouting and
// in output. Only the first packet of a TCP connection is looked up: later ones
// are told by the connection's mark, and a connection that was here before its
// frontend goes on as it did. Every UDP packet is looked up unless its flow has a
// socket, so that a frontend's refusal is heard at once.
//
// Source ranges hold for every source, so they come first. local matches packets
// of local clients.
func (f family) common(local []expr.Any) [][]expr.Any {
	key := f.frontKey(viewServices)
	ranged := append(f.frontKey(viewServices), f.payload(f.saddr, reg0+f.addrLen/4+2))
	return [][]expr.Any{
		join(ctReply(), ctMarked(), f.toProxy(), accept()),
		join(ctReply(), accept()),
		join(f.l4proto(unix.IPPROTO_TCP), ctStatus(dstNAT), accept()), // by a backend before this one
		join(ctMarked(), f.l4proto(unix.IPPROTO_TCP), firstSegment(expr.CmpOpNeq), f.toProxy(), accept()),
		join(ctMarked(), f.l4proto(f.icmp), f.toProxy(), accept()), // about such a connection
		join(f.l4proto(unix.IPPROTO_TCP), firstSegment(expr.CmpOpNeq), accept()),
		join(key, f.in(setRestricted, false), ranged, f.in(setSources, true), drop()),
		join(local, verdict(expr.VerdictJump, viewInsideServices.name())),
		verdict(expr.VerdictJump, viewServices.name()),
		join(f.daddrIn(setNodeAddrs), local, verdict(expr.VerdictJump, viewInsideNodePorts.name())),
		join(f.daddrIn(setNodeAddrs), verdict(expr.VerdictJump, viewNodePorts.name())),
		// No frontend's, yet marked: a flow of the process that kept its client's address
		// had the port that the client itself uses now.
		join(f.l4proto(unix.IPPROTO_UDP), ctMarked(), ctMarkSet(0)),
	}
}

func (f family) viewChain(v view) chain {
	act := func(a plan.Action, do []expr.Any) []expr.Any { return join(f.frontKey(v), f.in(v.set(a), false), do) }
	return chain{name: v.name(), rules: [][]expr.Any{
		act(plan.Forward, f.intercept()),
		act(plan.Reject, verdict(expr.VerdictGoto, "refuse")),
		act(plan.Drop, drop()),
	}}
}

// deliver hands packets to the process: to the socket of their connection, which
// tproxy looks for first, else to the listener, which is one for packets of the
// node itself and one for all others. Without a listener, as between two
// processes, silence makes a client try again; a connection that ended with its
// process before its last ACK came is reset.
func (f family) deliver(at ports) [][]expr.Any {
	other := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: reg0}, mask(4, native(markMask)),
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: native(markToProxy)},
	}
	to := func(proto byte, from expr.CmpOp, port uint16) []expr.Any {
		return join(f.l4proto(proto), onLoopback(from), f.tproxy(port), accept())
	}
	out := [][]expr.Any{
		join(other, accept()),
		// Its port is another than the socket's, which is found when that is undone: conntrack
		// had that of the socket in use, for a connection that somebody else translated.
		join(ctReply(), ctStatus(srcNAT), accept()),
	}
	if at.hold {
		out = append(out,
			join(f.l4proto(unix.IPPROTO_TCP), firstSegment(expr.CmpOpEq), drop()),
			join(f.ownSocket(), to(unix.IPPROTO_UDP, expr.CmpOpEq, at.nodeUDP)),
			join(f.ownSocket(), to(unix.IPPROTO_UDP, expr.CmpOpNeq, at.udp)),
			join(f.l4proto(unix.IPPROTO_UDP), drop()),
		)
	}
	return append(out,
		to(unix.IPPROTO_TCP, expr.CmpOpEq, at.nodeTCP),
		to(unix.IPPROTO_TCP, expr.CmpOpNeq, at.tcp),
		to(unix.IPPROTO_UDP, expr.CmpOpEq, at.nodeUDP),
		to(unix.IPPROTO_UDP, expr.CmpOpNeq, at.udp),
		join(f.l4proto(unix.IPPROTO_TCP), firstSegment(expr.CmpOpNeq), verdict(expr.VerdictGoto, "refuse")),
		join(f.l4proto(unix.IPPROTO_TCP), drop()),
		join(f.l4proto(unix.IPPROTO_UDP), drop()),
	)
}

func (f family) tproxy(port uint16) []expr.Any {
	next := reg0 + f.addrLen/4
	return []expr.Any{
		&expr.Immediate{Register: reg0, Data: f.loopback.AsSlice()},
		&expr.Immediate{Register: next, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.TProxy{Family: f.proto, TableFamily: f.proto, RegAddr: reg0, RegPort: next},
	}
}

// Registers: 4-byte register 0 is number 8. A concatenated key begins there.
const reg0 = 8

func is(e ...expr.Any) []expr.Any { return e }

func join(parts ...[]expr.Any) []expr.Any {
	var out []expr.Any
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func verdict(k expr.VerdictKind, chain string) []expr.Any {
	return is(&expr.Verdict{Kind: k, Chain: chain})
}

func accept() []expr.Any { return verdict(expr.VerdictAccept, "") }
func drop() []expr.Any   { return verdict(expr.VerdictDrop, "") }

func (f family) payload(offset, reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.addrLen}
}

// frontKey loads a view's key from the packet.
func (f family) frontKey(v view) []expr.Any {
	reg, out := uint32(reg0), []expr.Any{}
	if v.exact() {
		out = append(out, f.payload(f.daddr, reg))
		reg += f.addrLen / 4
	}
	return append(out, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Payload{DestRegister: reg + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2})
}

func (f family) in(set setID, invert bool) []expr.Any {
	return is(&expr.Lookup{SourceRegister: reg0, SetName: f.specs()[set].name, SetID: uint32(set) + 1, Invert: invert})
}

func (f family) daddrIn(set setID) []expr.Any {
	return join(is(f.payload(f.daddr, reg0)), f.in(set, false))
}

func (f family) saddrIn(set setID) []expr.Any {
	return join(is(f.payload(f.saddr, reg0)), f.in(set, false))
}

func (f family) fromLocalPod() []expr.Any {
	if f.link == "" {
		return f.saddrIn(setLocalPods)
	}
	return is(&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg0}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: f.link.Pattern()})
}

func (f family) l4proto(p byte) []expr.Any {
	return is(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg0}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{p}})
}

// firstSegment matches the TCP segment that opens a connection: SYN without ACK.
func firstSegment(op expr.CmpOp) []expr.Any {
	return is(&expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		mask(1, []byte{0x12}), &expr.Cmp{Op: op, Register: reg0, Data: []byte{0x02}})
}

func mask(n uint32, bits []byte) expr.Any {
	return &expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: n, Mask: bits, Xor: make([]byte, n)}
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// nonzero matches a value of which some of the bits are set.
func nonzero(load expr.Any, bits uint32) []expr.Any {
	return is(load, mask(4, native(bits)), &expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: native(0)})
}

func markSet(bits uint32) []expr.Any {
	return nonzero(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg0}, bits)
}

func ctMarked() []expr.Any {
	return nonzero(&expr.Ct{Key: expr.CtKeyMARK, Register: reg0}, markToProxy)
}

// What of a connection is translated: IPS_SRC_NAT and IPS_DST_NAT.
const (
	srcNAT = 1 << 4
	dstNAT = 1 << 5
)

func ctStatus(bits uint32) []expr.Any {
	return nonzero(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg0}, bits)
}

func ctReply() []expr.Any {
	return is(&expr.Ct{Key: expr.CtKeyDIRECTION, Register: reg0}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: []byte{1}})
}

func onLoopback(op expr.CmpOp) []expr.Any {
	const lo = 1 // the first interface of every namespace
	return is(&expr.Meta{Key: expr.MetaKeyIIF, Register: reg0}, &expr.Cmp{Op: op, Register: reg0, Data: native(lo)})
}

// ownSocket matches packets to a connected socket of the process.
func (f family) ownSocket() []expr.Any {
	return is(&expr.Socket{Key: expr.SocketKeyMark, Register: reg0}, mask(4, native(markMask)),
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: native(markOurs)})
}

func (f family) toProxy() []expr.Any {
	return is(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: native(^uint32(markMask)), Xor: native(markToProxy)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg0})
}

func ctMarkSet(bits uint32) []expr.Any {
	return is(&expr.Ct{Key: expr.CtKeyMARK, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4, Mask: native(^uint32(markToProxy)), Xor: native(bits)},
		&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: reg0})
}

// intercept is for packets whose connection is to end in the process.
func (f family) intercept() []expr.Any { return join(ctMarkSet(markToProxy), f.toProxy(), accept()) }

func bigEndian() binaryutil.ByteOrder { return binaryutil.BigEndian }
