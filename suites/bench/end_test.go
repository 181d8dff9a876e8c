//go:build linux

package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
)

// workDir is the folder of a run, which is called as a test's namespaces are.
func workDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fmt.Sprintf("t%d-0", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// programs is where what is built for all tests lies.
var programs string // set by TestMain

func TestMain(m *testing.M) {
	os.Exit(func() int {
		err := need.NoBPFFS() // a run mounts what it needs
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if programs, err = os.MkdirTemp("", "bench"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		return m.Run()
	}())
}

// builtProxy is plumb-proxy, built once.
var builtProxy = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "plumb-proxy")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/plumbline/plumbline/tools/plumb-proxy").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build plumb-proxy: %w: %s", err, out)
	}
	return path, nil
})

// buildProxy leaves plumb-proxy at a path below a test's folder: by its path a process is known.
func buildProxy(t *testing.T, path string) {
	t.Helper()
	built, err := builtProxy()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(built, path); err != nil {
		t.Fatal(err)
	}
}

// A first Apply or a clean-up that hangs is the row's own end: the run goes on, on a node without rules.
func TestHanging(t *testing.T) {
	need.Root(t)
	dir := workDir(t)
	hangs := filepath.Join(dir, "hangs")
	if err := os.WriteFile(hangs, []byte("#!/bin/sh\nexec sleep 300\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context(), dir, api.New(api.Config{Logger: slog.New(slog.DiscardHandler)}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	rules := func(f func(*nftables.Conn) error) {
		t.Helper()
		err := w.node.Do(func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			return f(c)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rules(func(c *nftables.Conn) error {
		c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "left"})
		return c.Flush()
	})
	rules(func(*nftables.Conn) error {
		r := netlink.NewRule()
		r.Priority, r.Table = 90, 28780
		return netlink.RuleAdd(r)
	})
	s := &subject{w: w, cfg: Config{PlumbProxy: hangs, Limit: time.Second}, row: Rows()[0], out: &Result{Cold: time.Second}}
	s.spec = proxyproc.Spec{Name: "row", Program: hangs}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.firstApply(t.Context(), time.Now().Add(100*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "ask plumb-nftables how long its first complete Apply took") {
		t.Errorf("a first Apply: %v", err)
	} else if _, ok := errors.AsType[rowsEnd](err); !ok {
		t.Errorf("a first Apply that does not end is the run's end: %v", err)
	}
	if err := s.end(t.Context()); err != nil {
		t.Errorf("the run ends: %v", err)
	}
	rules(func(c *nftables.Conn) error {
		left, err := c.ListTables()
		if len(left) > 0 {
			t.Errorf("tables are left: %v", left)
		}
		routing, failed := netlink.RuleList(netlink.FAMILY_V4)
		if len(routing) != 3 {
			t.Errorf("routing rules are left: %v", routing)
		}
		return errors.Join(err, failed)
	})
	if got := Markdown([]Result{*s.out}, ""); !strings.Contains(got, "1 s ended: clean up after plumb-nftables: not finished within the limit") {
		t.Errorf("the table does not tell:\n%s", got)
	}
}
