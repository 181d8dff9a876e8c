package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// translated is a table of nftables in each family, with a chain of type nat and a rule in it that
// reads a connection's state and does nothing. The kernel tracks connections for as long as a rule
// asks for that, and translates what it tracks for as long as there is a chain of this type: without,
// the open connections of a backend that translated by conntrack would break when its rules go. Most
// nodes have both from somebody else, who masquerades pods.
const translated = "plumbline-ebpf"

func translatedTables() []*lib.Table {
	return []*lib.Table{{Family: lib.TableFamilyIPv4, Name: translated}, {Family: lib.TableFamilyIPv6, Name: translated}}
}

// keepsTranslated is a target beside which what conntrack translates goes on.
type keepsTranslated struct {
	loop.Target
	netns int
	log   *slog.Logger
}

func (k keepsTranslated) Apply(ctx context.Context, old, new *plan.Plan) error {
	if old == nil {
		if err := keepTranslated(k.netns); err != nil { // such as a kernel without nf_tables
			k.log.Warn("open connections that conntrack translates may break if nobody else on this node translates", "err", err)
		}
	}
	return k.Target.Apply(ctx, old, new)
}

// keepTranslated makes the tables, as far as they are not there: each family for itself, for the
// kernel may lack one.
func keepTranslated(netns int) error {
	return onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		conn.AddTable(t)
		c := conn.AddChain(&lib.Chain{Table: t, Name: "keep", Type: lib.ChainTypeNAT, Hooknum: lib.ChainHookPrerouting, Priority: lib.ChainPriorityNATDest})
		conn.FlushChain(c)
		conn.AddRule(&lib.Rule{Table: t, Chain: c, Exprs: []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}}})
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("add a chain to table %s: %w", translated, err)
		}
		return nil
	})
}

// leftTranslated names the tables that are there.
func leftTranslated(netns int) (out []string, err error) {
	names := map[lib.TableFamily]string{lib.TableFamilyIPv4: "ip", lib.TableFamilyIPv6: "ip6"}
	err = onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		there, err := conn.ListTablesOfFamily(t.Family)
		if err != nil {
			return fmt.Errorf("list tables: %w", err)
		}
		for _, other := range there {
			if other.Name == t.Name {
				out = append(out, fmt.Sprintf("table %s %s", names[t.Family], t.Name))
			}
		}
		return nil
	})
	return out, err
}

// dropTranslated takes the tables away that are there.
func dropTranslated(netns int) error {
	there, err := leftTranslated(netns)
	if err != nil || len(there) == 0 {
		return err
	}
	return onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		conn.AddTable(t) // or a family without one would fail
		conn.DelTable(t)
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("delete table %s: %w", translated, err)
		}
		return nil
	})
}

func onEachFamily(netns int, f func(*lib.Conn, *lib.Table) error) error {
	conn, err := lib.New(lib.WithNetNSFd(netns))
	if err != nil {
		return fmt.Errorf("open netfilter socket: %w", err)
	}
	var failed error
	for _, t := range translatedTables() {
		failed = errors.Join(failed, f(conn, t))
	}
	return failed
}
