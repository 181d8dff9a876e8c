package main

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

const table = "plumbline-cni"

// masquerade replaces the address of pods in traffic that leaves the cluster:
// source in a pod subnet, destination neither pod nor node. Pods reach pods and
// nodes with their own address, as the Kubernetes network model demands. It
// replaces the whole table in one transaction.
func masquerade(pods, internal []netip.Prefix) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	for _, f := range []family{{nftables.TableFamilyIPv4, 12, 16, 4, nftables.TypeIPAddr}, {nftables.TableFamilyIPv6, 8, 24, 16, nftables.TypeIP6Addr}} {
		if err := f.add(conn, f.only(pods), f.only(internal)); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("apply table %s: %w", table, err)
	}
	return nil
}

// family says where an IP header of one family keeps its addresses.
type family struct {
	nf          nftables.TableFamily
	saddr, dadr uint32
	size        uint32
	key         nftables.SetDatatype
}

func (f family) only(all []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		if p.Addr().Is4() == (f.size == 4) {
			out = append(out, p)
		}
	}
	return out
}

func (f family) add(conn *nftables.Conn, pods, internal []netip.Prefix) error {
	t := &nftables.Table{Family: f.nf, Name: table}
	conn.AddTable(t) // so that the removal that follows always finds one
	conn.DelTable(t)
	if len(pods) == 0 {
		return nil
	}
	conn.AddTable(t)
	policy := nftables.ChainPolicyAccept
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource, Policy: &policy,
	})
	from, err := f.set(conn, t, "pods", pods)
	if err != nil {
		return err
	}
	to, err := f.set(conn, t, "internal", internal)
	if err != nil {
		return err
	}
	load := func(offset uint32) expr.Any {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.size}
	}
	conn.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{
		load(f.saddr), &expr.Lookup{SourceRegister: 1, SetName: from.Name, SetID: from.ID},
		load(f.dadr), &expr.Lookup{SourceRegister: 1, SetName: to.Name, SetID: to.ID, Invert: true},
		&expr.Masq{},
	}})
	return nil
}

func (f family) set(conn *nftables.Conn, t *nftables.Table, name string, prefixes []netip.Prefix) (*nftables.Set, error) {
	s := &nftables.Set{Table: t, Name: name, KeyType: f.key, Interval: true}
	seen := map[netip.Prefix]bool{}
	var elems []nftables.SetElement
	for _, p := range prefixes {
		if seen[p] || covered(p, prefixes) {
			continue
		}
		seen[p] = true
		first, after := p.Addr().AsSlice(), next(p)
		elems = append(elems, nftables.SetElement{Key: first}, nftables.SetElement{Key: after, IntervalEnd: true})
	}
	if err := conn.AddSet(s, elems); err != nil {
		return nil, fmt.Errorf("add set %s: %w", name, err)
	}
	return s, nil
}

// covered says whether a wider prefix of the list holds p; overlapping
// intervals are refused by the kernel.
func covered(p netip.Prefix, all []netip.Prefix) bool {
	for _, q := range all {
		if q.Bits() < p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// next is the first address after the prefix.
func next(p netip.Prefix) []byte {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits() - 1; i >= 0; i-- {
		bit := byte(1) << (7 - i%8)
		if b[i/8]&bit == 0 {
			b[i/8] |= bit
			return b
		}
		b[i/8] &^= bit
	}
	return b // wrapped: the end of the address space
}
