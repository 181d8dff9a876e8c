package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

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

// Apply makes the tables when the programs are there, before anybody takes another backend's rules
// away: where they cannot be, nothing is left behind.
func (k keepsTranslated) Apply(ctx context.Context, old, new *plan.Plan) error {
	err := k.Target.Apply(ctx, old, new)
	var refused *plan.Refused
	if old != nil || err != nil && !errors.As(err, &refused) {
		return err
	}
	if failed := keepTranslated(k.netns); failed != nil { // such as a kernel without nf_tables
		k.log.Warn("open connections that conntrack translates may break if nobody else on this node translates", "err", failed)
	}
	return err
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

// leftTranslated names the tables that are there. Each is asked for by its name: a list is not whole
// if somebody changes other tables meanwhile.
func leftTranslated(netns int) (out []string, err error) {
	names := map[lib.TableFamily]string{lib.TableFamilyIPv4: "ip", lib.TableFamilyIPv6: "ip6"}
	err = onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		there, err := hasTable(conn, t)
		if there {
			out = append(out, fmt.Sprintf("table %s %s", names[t.Family], t.Name))
		}
		return err
	})
	return out, err
}

func hasTable(conn *lib.Conn, t *lib.Table) (bool, error) {
	_, err := conn.ListTableOfFamily(t.Name, t.Family)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for table %s: %w", t.Name, err)
	}
	return true, nil
}

// dropTranslated takes the tables away that are there, and touches no other family: the kernel may
// lack it.
func dropTranslated(netns int) error {
	return onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		there, err := hasTable(conn, t)
		if err != nil || !there {
			return err
		}
		conn.DelTable(t)
		if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) { // gone meanwhile
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
