package nftables

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// ownable is false where the kernel has no such tables, which is said.
func ownable(t *testing.T, ns *netns.NS) bool {
	t.Helper()
	err := Ownable(ns.FD())
	if err == nil {
		return true
	}
	if !errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "Linux 6.9") {
		t.Errorf("no tables with an owner: %v", err)
	}
	return false
}

func newOwner(t *testing.T, ns *netns.NS) *Target {
	target := New(Config{Logger: newLogger(t), NetNS: ns.FD(), Own: true})
	t.Cleanup(func() { _ = target.Close() })
	return target
}

// flush is what an administrator, or a firewall's service, does to everybody's tables.
func flush(t *testing.T, ns *netns.NS) {
	t.Helper()
	need.Program(t, "nft")
	err := ns.Do(func() error {
		out, err := exec.CommandContext(t.Context(), "nft", "flush", "ruleset").CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft flush ruleset: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Tables that are owned are changed by their process alone and outlive it; the next one takes
// them over as they are, with an owner or without.
func TestOwnTables(t *testing.T) {
	ns := netns.ForTest(t, "own")
	if !ownable(t, ns) {
		return
	}
	old, new := some(20, 3, 1), some(20, 3, 2)
	first := newOwner(t, ns)
	if err := first.Apply(t.Context(), nil, old); err != nil {
		t.Fatal(err)
	}
	made := handles(t, ns)
	flush(t, ns)
	wantKernel(t, ns, old)
	const whose = "table ip plumbline is owned by another process, at netlink port "
	for what, do := range map[string]func() error{
		"clean":     func() error { return Clean(ns.FD()) },
		"take over": func() error { return newTest(t, ns).Apply(t.Context(), nil, new) },
		"own":       func() error { return newOwner(t, ns).Apply(t.Context(), nil, new) },
	} {
		if err := do(); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), whose) {
			t.Errorf("%s while another owns the tables: %v, want %q", what, err, whose)
		}
	}
	if err := first.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
	wantKernel(t, ns, new)

	_ = first.Close()
	for _, next := range []*Target{newTest(t, ns), newOwner(t, ns), newTest(t, ns)} {
		wantKernel(t, ns, new)
		if err := next.Apply(t.Context(), nil, new); err != nil {
			t.Fatal(err)
		}
		if got := handles(t, ns); got != made {
			t.Errorf("tables %s were replaced by %s", made, got)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(ns.FD()); err != nil {
		t.Errorf("clean when the owner has ended: %v", err)
	}
	if got := handles(t, ns); got != "" {
		t.Errorf("left: %s", got)
	}
}

// Tables that nobody may own as they are, are replaced, in one transaction.
func TestOwnTablesOfBefore(t *testing.T) {
	ns := netns.ForTest(t, "own")
	if !ownable(t, ns) {
		return
	}
	p := some(20, 3, 1)
	if err := newTest(t, ns).Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	before := handles(t, ns)
	target := newOwner(t, ns)
	target.fault = func() error {
		if !strings.Contains(chains(t, ns), "prerouting") {
			t.Error("nothing serves between two transactions")
		}
		return nil
	}
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if now := handles(t, ns); now == before || now == "" {
		t.Errorf("tables %s are the same", now)
	}
	flush(t, ns)
	wantKernel(t, ns, p)
}

// A socket that is closed, for an error of the kernel's or a frontend that it refuses, owns
// nothing: the next one does.
func TestOwnTablesAnew(t *testing.T) {
	ns := netns.ForTest(t, "own")
	if !ownable(t, ns) {
		return
	}
	old, new := some(20, 3, 1), some(20, 3, 2)
	target := newOwner(t, ns)
	if err := target.Apply(t.Context(), nil, old); err != nil {
		t.Fatal(err)
	}
	target.fault = func() error { return unix.ENOBUFS }
	if err := target.Apply(t.Context(), old, new); !errors.Is(err, unix.ENOBUFS) {
		t.Fatalf("%v, want the fault", err)
	}
	target.fault = nil
	if err := target.Apply(t.Context(), nil, new); err != nil {
		t.Fatal(err)
	}
	flush(t, ns)
	wantKernel(t, ns, new)

	alone := some(1, 3, 4)
	lone := spoil(alone, 0)
	wantRefused(t, target.Apply(t.Context(), with(new, objects.Name{Namespace: "ns", Name: "0"}, new.Services[objects.Name{Namespace: "ns", Name: "0"}]), alone), lone)
	flush(t, ns)
	wantKernel(t, ns, new)

	bad := some(20, 3, 3)
	key := spoil(bad, 7)
	wantRefused(t, target.Apply(t.Context(), new, bad), key)
	flush(t, ns)
	if got := handles(t, ns); got == "" {
		t.Error("the tables were flushed after a refusal")
	}
	_ = target.Close()
	wantRefused(t, target.Apply(t.Context(), nil, bad), key)
	flush(t, ns)
	wantKernel(t, ns, without(bad, key))
}

// An error of the moment does not have tables of an owner that has ended replaced.
func TestOwnTablesStay(t *testing.T) {
	ns := netns.ForTest(t, "own")
	if !ownable(t, ns) {
		return
	}
	p := some(20, 3, 1)
	owner := newOwner(t, ns)
	if err := owner.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	_ = owner.Close()
	made := handles(t, ns)
	for _, next := range []*Target{newTest(t, ns), newOwner(t, ns)} {
		for _, err := range []error{unix.ENOENT, unix.ENOMEM, unix.EEXIST} {
			once := err
			next.fault = func() (err error) { err, once = once, nil; return err }
			if got := next.Apply(t.Context(), nil, some(20, 3, 2)); !errors.Is(got, err) {
				t.Errorf("%v, want %v", got, err)
			}
		}
		_ = next.Close()
	}
	if got := handles(t, ns); got != made {
		t.Errorf("tables %s were replaced by %s", made, got)
	}
}

// handles are the kernel's numbers (NFTA_TABLE_HANDLE) of our tables: one that was made anew has another.
func handles(t *testing.T, ns *netns.NS) string {
	t.Helper()
	var out []string
	for _, f := range newBoth() {
		c, err := dial(ns.FD(), 0)
		if err != nil {
			t.Fatal(err)
		}
		err = c.ask(f, unix.NFT_MSG_GETTABLE, netlink.Dump, nil, func(_ uint16, attrs string) {
			if name(attr(attrs, unix.NFTA_TABLE_NAME)) == TableName {
				out = append(out, fmt.Sprintf("%s %x", f.text, attr(attrs, 4)))
			}
		})
		_ = c.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, ", ")
}
