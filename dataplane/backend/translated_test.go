package backend

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/commits"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// applies is a target whose Apply ends with an error, or with none.
type applies struct{ err error }

func (a applies) Apply(context.Context, *plan.Plan, *plan.Plan) error { return a.err }

func (a applies) Watch(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }

var bothTables = []string{"table ip plumbline-ebpf", "table ip6 plumbline-ebpf"}

// The tables are there when a complete Apply has ended, also one that had to refuse a frontend; an
// Apply that fails, as on a kernel where no program loads, leaves none.
func TestTablesWithPrograms(t *testing.T) {
	need.Root(t)
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"fails": {errors.New("no program loads"), nil}, "refuses": {&plan.Refused{}, bothTables}, "works": {nil, bothTables},
	} {
		ns := netns.ForTest(t, "n")
		k := &keepsTranslated{target: applies{c.err}, netns: ns.FD(), log: slog.New(slog.DiscardHandler)}
		if err := k.Apply(t.Context(), nil, &plan.Plan{}); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if got, err := leftTranslated(ns.FD()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: tables %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// Of two families one may have no nf_tables: nothing is asked of it but whether the table is there.
func TestDropsTheTablesThatAreThere(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	conn, err := lib.New(lib.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	conn.AddTable(&lib.Table{Family: lib.TableFamilyIPv4, Name: translated})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	before, err := commits.Generation(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is none
		if err := dropTranslated(ns.FD()); err != nil {
			t.Fatal(err)
		}
		if got, err := leftTranslated(ns.FD()); err != nil || len(got) > 0 {
			t.Errorf("left are %q, %v", got, err)
		}
		if after, err := commits.Generation(ns.FD()); err != nil || after != before+1 {
			t.Errorf("%d transactions (%v), want 1", after-before, err)
		}
	}
}

// Who takes a table away, or its rule, is heard.
func TestTablesTakenAway(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	k := &keepsTranslated{target: applies{}, netns: ns.FD(), log: slog.New(slog.DiscardHandler)}
	again := func() {
		t.Helper()
		if err := k.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
			t.Fatal(err)
		}
	}
	again()
	if err := dropTranslated(ns.FD()); err != nil { // before anybody listens
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	lost, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- k.Watch(ctx, func() { lost <- struct{}{} }) }()
	told := func(what string) {
		t.Helper()
		select {
		case <-lost:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not told of", what)
		}
		again()
	}
	told("what came before")
	conn, err := lib.New(lib.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	v6 := translatedTables()[1]
	for what, change := range map[string]func(){
		"a table": func() { conn.DelTable(v6) }, "a rule": func() { conn.FlushTable(v6) }, "the rule set": conn.FlushRuleset,
	} {
		for len(lost) > 0 { // the kernel tells of what Apply did too, late
			<-lost
		}
		change()
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		told(what)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What Apply does itself is no loss at any time.
func TestTablesNotTakenAway(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	k := &keepsTranslated{target: applies{}, netns: ns.FD(), log: slog.New(slog.DiscardHandler)}
	if taken, err := k.taken(); err != nil || taken {
		t.Errorf("before there was a table it is taken away: %t, %v", taken, err)
	}
	if err := k.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		var failed error
		for ctx.Err() == nil {
			failed = errors.Join(failed, k.Apply(context.Background(), nil, &plan.Plan{}))
		}
		done <- failed
	}()
	for range 200 {
		if taken, err := k.taken(); err != nil || taken {
			t.Errorf("taken away: %t, %v", taken, err)
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A table is found while somebody else adds and deletes tables.
func TestTablesAmongChanges(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	if _, err := keepTranslated(ns.FD()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- churn(ctx, ns.FD()) }()
	for range 500 {
		if got, err := leftTranslated(ns.FD()); err != nil || !slices.Equal(got, bothTables) {
			t.Errorf("tables %q (%v), want %q", got, err, bothTables)
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// churn adds tables, more than one message of a dump has room for, and deletes them again.
func churn(ctx context.Context, netns int) error {
	conn, err := lib.New(lib.WithNetNSFd(netns))
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		for _, change := range []func(*lib.Table){func(t *lib.Table) { conn.AddTable(t) }, conn.DelTable} {
			for i := range 200 {
				change(&lib.Table{Family: lib.TableFamilyIPv4, Name: "other-" + string(rune('a'+i/20)) + string(rune('a'+i%20))})
			}
			if err := conn.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
