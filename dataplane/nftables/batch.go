package nftables

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	lib "github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// batch gathers messages that the kernel takes in as one: either all of them, in
// a single generation, or none.
//
// It exists because the library's own connection cannot carry a rule with an
// expression that the library lacks (ctOriginal) in the same batch as the rest.
type batch struct {
	msgs []netlink.Message
	err  error // of the first rule that could not be encoded
}

func (b *batch) empty() bool { return len(b.msgs) == 0 }

// The sizes of what send puts around the data.
const (
	messageHeader = unix.NLMSG_HDRLEN
	batchFrame    = 2 * (messageHeader + 4) // begin and end, each with a struct nfgenmsg
)

// bytes is the size of what send sends.
func (b *batch) bytes() int {
	n := batchFrame
	for _, m := range b.msgs {
		n += messageHeader + (len(m.Data)+3)&^3
	}
	return n
}

func (b *batch) add(f family, typ uint16, flags netlink.HeaderFlags, attrs []byte) {
	b.msgs = append(b.msgs, netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(uint16(unix.NFNL_SUBSYS_NFTABLES)<<8 | typ),
			Flags: netlink.Request | flags,
		},
		Data: append(nfgen(f.proto, 0), attrs...),
	})
}

// nfgen is struct nfgenmsg: family, version, resource id.
func nfgen(proto byte, res uint16) []byte { return []byte{proto, 0, byte(res >> 8), byte(res)} }

// table adds our table, and wakes one that is dormant.
func (b *batch) table(f family, flags uint32) { b.newTable(f, TableName, flags) }

func (b *batch) newTable(f family, called string, flags uint32) {
	var a buffer
	a.str(unix.NFTA_TABLE_NAME, called)
	a.u32(unix.NFTA_TABLE_FLAGS, flags)
	b.add(f, unix.NFT_MSG_NEWTABLE, netlink.Create, a.bytes)
}

func (b *batch) removeTable(f family, called string) {
	var a buffer
	a.str(unix.NFTA_TABLE_NAME, called)
	b.add(f, unix.NFT_MSG_DELTABLE, 0, a.bytes)
}

// chain adds a chain, with a hook if it is a base chain, and replaces its rules.
// In one batch, so no packet sees it empty.
func (b *batch) chain(f family, c chain) {
	var a buffer
	a.str(unix.NFTA_CHAIN_TABLE, TableName)
	a.str(unix.NFTA_CHAIN_NAME, c.name)
	if c.hook != nil {
		at := a.nest(unix.NFTA_CHAIN_HOOK)
		a.u32(unix.NFTA_HOOK_HOOKNUM, c.hook.num)
		a.u32(unix.NFTA_HOOK_PRIORITY, uint32(c.hook.priority))
		a.end(at)
		a.u32(unix.NFTA_CHAIN_POLICY, policyAccept)
		a.str(unix.NFTA_CHAIN_TYPE, string(c.hook.typ))
	}
	b.add(f, unix.NFT_MSG_NEWCHAIN, netlink.Create, a.bytes)

	var d buffer
	d.str(unix.NFTA_RULE_TABLE, TableName)
	d.str(unix.NFTA_RULE_CHAIN, c.name)
	b.add(f, unix.NFT_MSG_DELRULE, 0, d.bytes)
	for i, r := range c.rules {
		exprs, err := f.encode(r)
		if err != nil && b.err == nil {
			b.err = fmt.Errorf("encode rule %d of chain %s: %w", i, c.name, err)
		}
		b.rule(f, c.name, exprs)
	}
}

// removeChain removes a base chain; it has no rules that lead to it.
func (b *batch) removeChain(f family, called string) {
	var a, d buffer
	d.str(unix.NFTA_RULE_TABLE, TableName)
	d.str(unix.NFTA_RULE_CHAIN, called)
	b.add(f, unix.NFT_MSG_DELRULE, 0, d.bytes)
	a.str(unix.NFTA_CHAIN_TABLE, TableName)
	a.str(unix.NFTA_CHAIN_NAME, called)
	b.add(f, unix.NFT_MSG_DELCHAIN, 0, a.bytes)
}

const policyAccept = 1 // NF_ACCEPT

func (b *batch) rule(f family, chain string, exprs []byte) {
	var a buffer
	a.str(unix.NFTA_RULE_TABLE, TableName)
	a.str(unix.NFTA_RULE_CHAIN, chain)
	at := a.nest(unix.NFTA_RULE_EXPRESSIONS)
	a.bytes = append(a.bytes, exprs...)
	a.end(at)
	a.text(unix.NFTA_RULE_USERDATA, mark(exprs))
	b.add(f, unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, a.bytes)
}

// encode is a rule's expressions as netlink wants them.
func (f family) encode(r rule) ([]byte, error) {
	var a buffer
	for _, e := range r {
		raw, err := e.encode(f.proto)
		if err != nil {
			return nil, err
		}
		a.attr(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, raw)
	}
	return a.bytes, nil
}

// mark is the user data of a rule of ours: a hash of its expressions. A rule
// cannot be changed, only replaced, so at a restart the marks tell whether a
// chain is as it should be, and one that is stays untouched. nft shows comments
// among the user data alone, which are type 0.
func mark(exprs []byte) string {
	const typ, size = 0x70, 8
	h := fnv.New64a()
	_, _ = h.Write(exprs) // cannot fail
	return string(binary.BigEndian.AppendUint64([]byte{typ, size}, h.Sum64()))
}

// set adds a set; one of the same name and type is left as it is.
func (b *batch) set(f family, id setID) {
	s, shape := f.sets[id], f.sets[id].shape()
	var a buffer
	a.str(unix.NFTA_SET_TABLE, TableName)
	a.str(unix.NFTA_SET_NAME, s.name)
	a.u32(unix.NFTA_SET_FLAGS, shape.flags)
	a.u32(unix.NFTA_SET_KEY_TYPE, shape.keyType)
	a.u32(unix.NFTA_SET_KEY_LEN, shape.keyLen)
	a.u32(unix.NFTA_SET_ID, uint32(id)+1)
	if s.isMap() {
		a.u32(unix.NFTA_SET_DATA_TYPE, shape.dataType)
		a.u32(unix.NFTA_SET_DATA_LEN, shape.dataLen)
	}
	desc := a.nest(unix.NFTA_SET_DESC)
	if s.learned {
		a.u32(unix.NFTA_SET_DESC_SIZE, memorySize)
	}
	if len(s.key) > 1 {
		describeFields(&a, s.key)
	}
	a.end(desc)
	if s.learned {
		a.u32(unix.NFTA_SET_GC_INTERVAL, memorySweep)
	}
	// Byte orders matter to nft alone, which prints the elements.
	order := bigEndian
	if s.key[0] == number {
		order = hostEndian
	}
	ud := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, order)
	a.attr(unix.NFTA_SET_USERDATA, ud)
	b.add(f, unix.NFT_MSG_NEWSET, netlink.Create, a.bytes)
}

// enum byteorder of nft.
const (
	hostEndian uint32 = 1
	bigEndian  uint32 = 2
)

// The memory of clients: how many it holds (beyond, new ones are served but not
// remembered), and the milliseconds between sweeps for those that have expired,
// which are ignored before they are swept.
const (
	memorySize  = 1 << 20
	memorySweep = 30_000
)

// setShape is what the kernel knows of a set's type.
type setShape struct{ flags, keyType, keyLen, dataType, dataLen uint32 }

func (s setSpec) shape() setShape {
	key := s.key[0]
	if len(s.key) > 1 {
		key, _ = lib.ConcatSetType(s.key...) // of whole registers
	}
	out := setShape{keyType: key.GetNFTMagic(), keyLen: key.Bytes}
	if len(s.key) > 1 {
		out.flags |= lib.NFT_SET_CONCAT
	}
	if s.interval || s.ranges {
		out.flags |= unix.NFT_SET_INTERVAL
	}
	if s.learned {
		out.flags |= unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
	}
	if !s.isMap() {
		return out
	}
	out.flags |= unix.NFT_SET_MAP
	if s.isVerdict() {
		out.dataType = unix.NFT_DATA_VERDICT
		return out
	}
	data, _ := lib.ConcatSetType(s.data...)
	out.dataType, out.dataLen = data.GetNFTMagic(), data.Bytes
	return out
}

// describeFields gives the length of each field of a concatenation; nft cannot
// list the set without.
func describeFields(a *buffer, types []lib.SetDatatype) {
	concat := a.nest(lib.NFTA_SET_DESC_CONCAT)
	for _, t := range types {
		item := a.nest(unix.NFTA_LIST_ELEM)
		a.u32(unix.NFTA_SET_DESC_SIZE, t.Bytes)
		a.end(item)
	}
	a.end(concat)
}

// perMessage bounds the elements of one message: an attribute's length has 16 bits.
const perMessage = 400

// elements adds or deletes elements of one set.
func (b *batch) elements(f family, id setID, typ uint16, elems []Element) {
	for len(elems) > 0 {
		n := min(len(elems), perMessage)
		a := buffer{make([]byte, 0, 64+96*n)}
		a.str(unix.NFTA_SET_ELEM_LIST_TABLE, TableName)
		a.str(unix.NFTA_SET_ELEM_LIST_SET, f.sets[id].name)
		at := a.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, e := range elems[:n] {
			a.element(f.sets[id], e)
		}
		a.end(at)
		flags := netlink.HeaderFlags(0)
		if typ == unix.NFT_MSG_NEWSETELEM {
			flags = netlink.Create
		}
		b.add(f, typ, flags, a.bytes)
		elems = elems[n:]
	}
}

func (b *buffer) element(s setSpec, e Element) {
	item := b.nest(unix.NFTA_LIST_ELEM)
	if e.id.end {
		b.u32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	if s.ranges {
		n := len(e.id.key) / 2
		b.value(unix.NFTA_SET_ELEM_KEY, e.id.key[:n])
		b.value(attrKeyEnd, e.id.key[n:])
	} else {
		b.value(unix.NFTA_SET_ELEM_KEY, e.id.key)
	}
	switch {
	case e.val == "":
	case s.isVerdict():
		data := b.nest(unix.NFTA_SET_ELEM_DATA)
		v := b.nest(unix.NFTA_DATA_VERDICT)
		b.u32(unix.NFTA_VERDICT_CODE, s.verdict())
		b.str(unix.NFTA_VERDICT_CHAIN, e.val)
		b.end(v)
		b.end(data)
	default:
		b.value(unix.NFTA_SET_ELEM_DATA, e.val)
	}
	b.end(item)
}

// verdict is the code of a verdict map's elements.
func (s setSpec) verdict() uint32 {
	code := int32(unix.NFT_GOTO)
	if s.jump {
		code = unix.NFT_JUMP
	}
	return uint32(code)
}
