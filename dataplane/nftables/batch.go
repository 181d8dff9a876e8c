package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

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

func (b *batch) table(f family, typ uint16) {
	var a buffer
	a.str(unix.NFTA_TABLE_NAME, TableName)
	flags := netlink.HeaderFlags(0)
	if typ == unix.NFT_MSG_NEWTABLE {
		flags = netlink.Create
	}
	b.add(f, typ, flags, a.bytes)
}

// chain adds a chain, with a hook if it is a base chain, and empties it.
func (b *batch) chain(f family, c chain) {
	var a buffer
	a.str(unix.NFTA_CHAIN_TABLE, TableName)
	a.str(unix.NFTA_CHAIN_NAME, c.name)
	if c.hook != noHook {
		at := a.nest(unix.NFTA_CHAIN_HOOK)
		a.u32(unix.NFTA_HOOK_HOOKNUM, c.hook)
		a.u32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))
		a.end(at)
		a.str(unix.NFTA_CHAIN_TYPE, string(lib.ChainTypeNAT))
	}
	b.add(f, unix.NFT_MSG_NEWCHAIN, netlink.Create, a.bytes)

	var d buffer
	d.str(unix.NFTA_RULE_TABLE, TableName)
	d.str(unix.NFTA_RULE_CHAIN, c.name)
	b.add(f, unix.NFT_MSG_DELRULE, 0, d.bytes)
	for _, r := range c.rules {
		b.rule(f, c.name, r)
	}
}

// noHook marks a chain that is only gone to.
const noHook = ^uint32(0)

func (b *batch) rule(f family, chain string, r rule) {
	var a buffer
	a.str(unix.NFTA_RULE_TABLE, TableName)
	a.str(unix.NFTA_RULE_CHAIN, chain)
	at := a.nest(unix.NFTA_RULE_EXPRESSIONS)
	for i, e := range r {
		raw, err := e.encode(f.proto)
		if err != nil && b.err == nil {
			b.err = fmt.Errorf("encode expression %d of chain %s: %w", i, chain, err)
		}
		a.attr(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, raw)
	}
	a.end(at)
	b.add(f, unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, a.bytes)
}

// set adds a set; one of the same name and type is left as it is.
func (b *batch) set(f family, id setID) {
	s := f.specs()[id]
	key, _ := lib.ConcatSetType(s.key...)
	flags := uint32(0)
	if len(s.key) > 1 {
		flags |= lib.NFT_SET_CONCAT
	}
	if s.isMap() {
		flags |= unix.NFT_SET_MAP
	}
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	var a buffer
	a.str(unix.NFTA_SET_TABLE, TableName)
	a.str(unix.NFTA_SET_NAME, s.name)
	a.u32(unix.NFTA_SET_FLAGS, flags)
	a.u32(unix.NFTA_SET_KEY_TYPE, key.GetNFTMagic())
	a.u32(unix.NFTA_SET_KEY_LEN, key.Bytes)
	a.u32(unix.NFTA_SET_ID, uint32(id)+1)
	if s.isMap() {
		setData(&a, s.data)
	}
	if len(s.key) > 1 {
		describeFields(&a, s.key)
	}
	// Byte orders matter to nft alone, which prints the elements: 2 is big endian.
	ud := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, 2)
	a.attr(unix.NFTA_SET_USERDATA, ud)
	b.add(f, unix.NFT_MSG_NEWSET, netlink.Create, a.bytes)
}

func setData(a *buffer, types []lib.SetDatatype) {
	data, _ := lib.ConcatSetType(types...)
	if data.Name == lib.TypeVerdict.Name {
		a.u32(unix.NFTA_SET_DATA_TYPE, unix.NFT_DATA_VERDICT)
		a.u32(unix.NFTA_SET_DATA_LEN, 0)
		return
	}
	a.u32(unix.NFTA_SET_DATA_TYPE, data.GetNFTMagic())
	a.u32(unix.NFTA_SET_DATA_LEN, data.Bytes)
}

// describeFields gives the length of each field of a concatenation; nft cannot
// list the set without.
func describeFields(a *buffer, types []lib.SetDatatype) {
	desc := a.nest(unix.NFTA_SET_DESC)
	concat := a.nest(lib.NFTA_SET_DESC_CONCAT)
	for _, t := range types {
		item := a.nest(unix.NFTA_LIST_ELEM)
		a.u32(unix.NFTA_SET_DESC_SIZE, t.Bytes)
		a.end(item)
	}
	a.end(concat)
	a.end(desc)
}

// perMessage bounds the elements of one message: an attribute's length has 16 bits.
const perMessage = 400

// elements adds or deletes elements of one set.
func (b *batch) elements(f family, id setID, typ uint16, elems []Element) {
	for len(elems) > 0 {
		n := min(len(elems), perMessage)
		a := elementList(f, id)
		at := a.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, e := range elems[:n] {
			item := a.nest(unix.NFTA_LIST_ELEM)
			if e.id.end {
				a.u32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
			}
			a.value(unix.NFTA_SET_ELEM_KEY, e.id.key)
			if e.val != "" {
				a.value(unix.NFTA_SET_ELEM_DATA, e.val)
			}
			a.end(item)
		}
		a.end(at)
		b.add(f, typ, createIf(typ), a.bytes)
		elems = elems[n:]
	}
}

func createIf(typ uint16) netlink.HeaderFlags {
	if typ == unix.NFT_MSG_NEWSETELEM {
		return netlink.Create
	}
	return 0
}

func elementList(f family, id setID) *buffer {
	a := &buffer{}
	a.str(unix.NFTA_SET_ELEM_LIST_TABLE, TableName)
	a.str(unix.NFTA_SET_ELEM_LIST_SET, f.specs()[id].name)
	return a
}

// class adds the chain of a class and the element that leads to it.
func (b *batch) class(f family, c class) {
	b.chain(f, chain{name: chainName(c), hook: noHook, rules: f.classRules(c)})
	a := elementList(f, setClasses)
	at := a.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	item := a.nest(unix.NFTA_LIST_ELEM)
	a.value(unix.NFTA_SET_ELEM_KEY, c.bytes())
	data := a.nest(unix.NFTA_SET_ELEM_DATA)
	v := a.nest(unix.NFTA_DATA_VERDICT)
	a.u32(unix.NFTA_VERDICT_CODE, gotoVerdict())
	a.str(unix.NFTA_VERDICT_CHAIN, chainName(c))
	a.end(v)
	a.end(data)
	a.end(item)
	a.end(at)
	b.add(f, unix.NFT_MSG_NEWSETELEM, netlink.Create, a.bytes)
}

func gotoVerdict() uint32 {
	code := int32(unix.NFT_GOTO)
	return uint32(code)
}

// send hands the batch to the kernel and waits for its word. Only the last
// message asks for an acknowledgement: an error of any message arrives before it,
// and is the end of the batch. After an error the connection must be closed, for
// more errors of the same batch may follow.
func (b *batch) send(conn *netlink.Conn) error {
	if b.err != nil {
		return b.err
	}
	if b.empty() {
		return nil
	}
	frame := func(typ uint16) netlink.Message {
		return netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.Request},
			Data:   nfgen(0, unix.NFNL_SUBSYS_NFTABLES),
		}
	}
	b.msgs[len(b.msgs)-1].Header.Flags |= netlink.Acknowledge
	all := append([]netlink.Message{frame(unix.NFNL_MSG_BATCH_BEGIN)}, b.msgs...)
	all = append(all, frame(unix.NFNL_MSG_BATCH_END))
	sent, err := conn.SendMessages(all)
	if err != nil {
		return fmt.Errorf("send %d messages: %w", len(b.msgs), err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return awaitAck(conn, sent[len(sent)-2].Header.Sequence)
}

// answerWithin bounds the wait for the kernel, which works on the batch while it
// is sent: the answer is there when sending returns.
const answerWithin = 30 * time.Second

func awaitAck(conn *netlink.Conn, seq uint32) error {
	for {
		replies, err := conn.Receive()
		if err != nil {
			var op *netlink.OpError
			if errors.As(err, &op) && op.Message != "" {
				return fmt.Errorf("kernel refuses the batch (%s): %w", op.Message, err)
			}
			return fmt.Errorf("kernel refuses the batch: %w", err)
		}
		for _, m := range replies {
			if m.Header.Sequence == seq {
				return nil
			}
		}
	}
}

// buffer builds netlink attributes.
type buffer struct{ bytes []byte }

func (b *buffer) attr(typ uint16, data []byte) {
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, uint16(4+len(data)))
	b.bytes = binary.NativeEndian.AppendUint16(b.bytes, typ)
	b.bytes = append(b.bytes, data...)
	for len(b.bytes)%4 != 0 {
		b.bytes = append(b.bytes, 0)
	}
}

func (b *buffer) str(typ uint16, s string) { b.attr(typ, append([]byte(s), 0)) }

func (b *buffer) u32(typ uint16, v uint32) { b.attr(typ, binary.BigEndian.AppendUint32(nil, v)) }

// value is a nested attribute that holds plain data.
func (b *buffer) value(typ uint16, data string) {
	at := b.nest(typ)
	b.attr(unix.NFTA_DATA_VALUE, []byte(data))
	b.end(at)
}

// nest begins a nested attribute; end(at) closes it.
func (b *buffer) nest(typ uint16) (at int) {
	at = len(b.bytes)
	b.attr(typ|unix.NLA_F_NESTED, nil)
	return at
}

func (b *buffer) end(at int) {
	binary.NativeEndian.PutUint16(b.bytes[at:], uint16(len(b.bytes)-at))
}
