//go:build linux

package peer

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/suites/stage"
)

const cases = "../../dataplane/testdata"

var modes = flag.String("modes", "", "compare with kube-proxy in these modes: nftables,iptables")

func TestKubeProxy(t *testing.T) {
	if *modes == "" {
		t.Skip("the contract against upstream kube-proxy takes minutes: -modes=nftables,iptables (make peer)")
	}
	need.Root(t)
	program, err := stage.KubernetesBinary(t.Context(), "kube-proxy", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	for mode := range strings.SplitSeq(*modes, ",") {
		if mode != "nftables" && mode != "iptables" {
			t.Fatalf("-modes: unknown mode %q; known: nftables, iptables", mode)
		}
		// A few at a time: much of a case is waiting for a sync, or for silence.
		todo := make(chan *dptest.Case, len(all))
		for _, c := range all {
			todo <- c
		}
		close(todo)
		for k := range feeds {
			t.Run(fmt.Sprintf("%s/%d", mode, k), func(t *testing.T) {
				t.Parallel()
				f := newFeed(t, program, mode)
				for c := range todo {
					t.Run(c.Name, func(t *testing.T) { f.compare(t, c, mode) })
				}
			})
		}
	}
}

// feeds is how many kube-proxies of a mode run at a time.
const feeds = 3

func (f *feed) compare(t *testing.T, c *dptest.Case, mode string) {
	if _, skip := c.Peer(mode); skip != "" {
		t.Skip(skip)
	}
	if err := errors.Join(f.clear(c), f.run(c.Options)); err != nil {
		t.Fatal(err)
	}
	var memory dptest.Memory
	for _, s := range c.Steps {
		rows, skip := s.Peer(mode)
		if skip != "" {
			t.Skip(skip)
		}
		if err := f.step(t.Context(), c, s); err != nil {
			t.Fatalf("step %d: %v", s.Number, err)
		}
		if err := f.net.Forget(); err != nil {
			t.Fatal(err)
		}
		if err := f.net.Check(t.Context(), s.Plan(), rows, &memory); err != nil {
			t.Errorf("step %d:\n%v", s.Number, err)
		}
	}
}
