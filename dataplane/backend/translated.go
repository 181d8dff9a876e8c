package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
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
	target
	netns int
	log   *slog.Logger

	mu   sync.Mutex
	made []*lib.Table // guarded by mu; the kernel may lack a family
}

type target interface {
	loop.Target
	Watch(ctx context.Context, lost func()) error
}

// Apply makes the tables when the programs are there, before anybody takes another backend's rules
// away: where they cannot be, nothing is left behind.
func (k *keepsTranslated) Apply(ctx context.Context, old, new *plan.Plan) error {
	err := k.target.Apply(ctx, old, new)
	var refused *plan.Refused
	if old != nil || err != nil && !errors.As(err, &refused) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	made, failed := keepTranslated(k.netns)
	if failed != nil { // such as a kernel without nf_tables
		k.log.Warn("open connections that conntrack translates may break if nobody else on this node translates", "err", failed)
	}
	k.made = made
	return err
}

// Watch is the target's, and calls lost as well when somebody has taken away what Apply has made in
// nftables.
func (k *keepsTranslated) Watch(ctx context.Context, lost func()) error {
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return k.target.Watch(ctx, lost) })
	run.Go(func() error {
		if err := k.listen(ctx, lost); err != nil {
			k.log.Warn("whether somebody takes table "+translated+" away is not seen any more", "err", err)
		}
		return nil
	})
	return run.Wait()
}

func (k *keepsTranslated) listen(ctx context.Context, lost func()) error {
	l, err := commits.Listen(k.netns, translated)
	if err != nil {
		return err
	}
	defer l.Close()
	look := func() {
		taken, err := k.taken()
		if err != nil {
			k.log.Warn("whether somebody took table "+translated+" away cannot be told", "err", err)
		}
		if taken {
			lost()
		}
	}
	look() // what came before there was somebody to hear
	return l.Watch(ctx, func(uint32) bool { return false }, look)
}

// taken tells whether a rule that Apply has made is not there; the kernel lists none of a table or
// chain that is gone.
func (k *keepsTranslated) taken() (taken bool, err error) {
	k.mu.Lock() // or one family would be looked at before its turn in Apply
	defer k.mu.Unlock()
	err = onEachFamily(k.netns, func(conn *lib.Conn, t *lib.Table) error {
		if !slices.ContainsFunc(k.made, func(m *lib.Table) bool { return m.Family == t.Family }) {
			return nil
		}
		rules, err := conn.GetRules(t, &lib.Chain{Name: keepChain})
		if err != nil {
			return fmt.Errorf("look for the rule of table %s: %w", t.Name, err)
		}
		taken = taken || len(rules) == 0
		return nil
	})
	return taken, err
}

const keepChain = "keep"

// keepTranslated makes the tables, as far as they are not there: each family for itself, for the
// kernel may lack one.
func keepTranslated(netns int) (made []*lib.Table, err error) {
	err = onEachFamily(netns, func(conn *lib.Conn, t *lib.Table) error {
		conn.AddTable(t)
		c := conn.AddChain(&lib.Chain{Table: t, Name: keepChain, Type: lib.ChainTypeNAT, Hooknum: lib.ChainHookPrerouting, Priority: lib.ChainPriorityNATDest})
		conn.FlushChain(c)
		conn.AddRule(&lib.Rule{Table: t, Chain: c, Exprs: []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1}}})
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("add a chain to table %s: %w", translated, err)
		}
		made = append(made, t)
		return nil
	})
	return made, err
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
