package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	freeze = "freeze"
	delay  = "delay"
)

func kinds() []string {
	return []string{"drop", "reject", "icmp", "reset", "drop-data", "thin", delay, freeze}
}

func known(kind string) bool { return slices.Contains(kinds(), kind) }

// table is the name of what is put into each namespace; it is gone at the end.
const table = "plumbline-inject"

// trouble is what can be switched on and off.
type trouble interface {
	on() error
	off() error
	touched() (senders []string, packets uint64, err error)
	close() error
}

// inject switches the trouble on in all namespaces at once, and off again.
func (o options) inject(ctx context.Context) (d done, err error) {
	d.options = o
	var all []trouble
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.close())
		}
	}()
	for _, ns := range o.Namespaces {
		t, err := o.in(ns)
		if t != nil {
			all = append(all, t)
		}
		if err != nil {
			return d, fmt.Errorf("namespace %s: %w", ns, err)
		}
	}
	d.OnAfter = now()
	for _, t := range all {
		if err := t.on(); err != nil {
			return d, err
		}
	}
	d.OnBefore = now()
	select {
	case <-time.After(o.For): // the length of the trouble is what was asked for
	case <-ctx.Done():
	}
	d.OffAfter = now()
	for _, t := range all {
		if err := t.off(); err != nil {
			return d, err
		}
	}
	d.OffBefore = now()
	for _, t := range all {
		who, packets, err := t.touched()
		if err != nil {
			return d, err
		}
		d.Touched, d.Packets = append(d.Touched, who...), d.Packets+packets
	}
	return d, nil
}

func (o options) in(namespace string) (trouble, error) {
	if o.Kind == freeze {
		f, err := processes(namespace)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	f, err := os.Open(path(namespace))
	if err != nil {
		return nil, err
	}
	conn, err := nftables.New(nftables.WithNetNSFd(int(f.Fd())), nftables.AsLasting())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &rule{options: o, file: f, conn: conn}
	return r, r.prepare()
}

// rule is a table with a chain that sees every packet first, and a set of who met its rule.
type rule struct {
	options
	file  *os.File
	conn  *nftables.Conn
	table *nftables.Table
	chain *nftables.Chain
	who   *nftables.Set
	count *nftables.CounterObj
	held  *held // of kind delay
}

// prepare makes all but the rule.
func (r *rule) prepare() error {
	r.table = r.conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: table})
	policy := nftables.ChainPolicyAccept
	first := nftables.ChainPriority(-500) // before conntrack and all others
	r.chain = r.conn.AddChain(&nftables.Chain{
		Name: "first", Table: r.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: &first, Policy: &policy,
	})
	sender, err := nftables.ConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	if err != nil {
		return err
	}
	r.who = &nftables.Set{Table: r.table, Name: "touched", KeyType: sender, Concatenation: true, Dynamic: true, Size: 65535}
	if err := r.conn.AddSet(r.who, nil); err != nil {
		return err
	}
	r.count = &nftables.CounterObj{Table: r.table, Name: "met"}
	r.conn.AddObj(r.count)
	if r.Kind == delay {
		if r.held, err = hold(r.file); err != nil {
			return err
		}
	}
	return r.conn.Flush()
}

func (r *rule) on() error {
	var match []expr.Any
	payload := func(base expr.PayloadBase, offset, size uint32, want []byte) {
		match = append(match,
			&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: size},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: want})
	}
	match = append(match, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}})
	payload(expr.PayloadBaseTransportHeader, 2, 2, binary.BigEndian.AppendUint16(nil, uint16(r.Port)))
	if r.Source.IsValid() {
		payload(expr.PayloadBaseNetworkHeader, 12, 4, r.Source.AsSlice())
	}
	if r.FromPort > 0 {
		match = append(match,
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2},
			&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: binary.BigEndian.AppendUint16(nil, uint16(r.FromPort))})
	}
	const fin, syn, rst, psh = 0x01, 0x02, 0x04, 0x08
	flags := func(mask, want byte) {
		match = append(match,
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{want}})
	}
	var end expr.Any = &expr.Verdict{Kind: expr.VerdictDrop}
	switch r.Kind {
	case "reject":
		flags(fin|syn|rst, syn)
		end = &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	case "icmp":
		flags(fin|syn|rst, syn)
		end = &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}
	case "reset":
		flags(psh, psh)
		end = &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	case "drop-data":
		flags(psh, psh)
	case "thin":
		match = append(match,
			&expr.Numgen{Register: 1, Modulus: 2, Type: unix.NFT_NG_RANDOM},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0, 0, 0, 0}})
	}
	// Who sent a SYN or data is noted; what else of a connection meets the rule harms nobody.
	rest := slices.Clone(match)
	switch r.Kind {
	case "thin": // what it let pass must not be drawn for again
		rest = nil
	case delay:
		end, rest = toQueue(), nil
	}
	flagsAny(&match, syn|psh)
	const reg0, reg1 = 8, 9 // 4 bytes each: NFT_REG32_00, _01
	const counter = 1       // NFT_OBJECT_COUNTER
	match = append(match,
		&expr.Objref{Type: counter, Name: r.count.Name},
		&expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2},
		&expr.Dynset{SrcRegKey: reg0, SetName: r.who.Name, SetID: r.who.ID, Operation: uint32(unix.NFT_DYNSET_OP_ADD)},
		end)
	r.conn.AddRule(&nftables.Rule{Table: r.table, Chain: r.chain, Exprs: match})
	if rest != nil {
		r.conn.AddRule(&nftables.Rule{Table: r.table, Chain: r.chain, Exprs: append(rest, end)})
	}
	return r.conn.Flush()
}

// flagsAny wants one of these flags at least.
func flagsAny(match *[]expr.Any, any byte) {
	*match = append(*match,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{any}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0}})
}

func (r *rule) off() error {
	r.conn.FlushChain(r.chain)
	return r.conn.Flush()
}

func (r *rule) touched() (senders []string, packets uint64, err error) {
	elements, err := r.conn.GetSetElements(r.who)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range elements {
		if len(e.Key) < 6 {
			return nil, 0, fmt.Errorf("an element of %d bytes", len(e.Key))
		}
		senders = append(senders, netip.AddrPortFrom(netip.AddrFrom4([4]byte(e.Key)), binary.BigEndian.Uint16(e.Key[4:])).String())
	}
	object, err := r.conn.GetObject(r.count)
	if err != nil {
		return nil, 0, err
	}
	count, ok := object.(*nftables.CounterObj)
	if !ok {
		return nil, 0, fmt.Errorf("the counter is a %T", object)
	}
	return senders, count.Packets, nil
}

func (r *rule) close() error {
	var err error
	if r.held != nil { // before the table goes, and with it what is in the queue
		var sent uint64
		_, sent, err = r.touched()
		err = errors.Join(err, r.held.close(sent))
	}
	r.conn.DelTable(r.table)
	return errors.Join(err, r.conn.Flush(), r.conn.CloseLasting(), r.file.Close())
}
