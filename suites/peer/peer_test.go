//go:build linux

package peer

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/suites/stage"
)

const cases = "../../dataplane/testdata"

func TestKubeProxy(t *testing.T) {
	need.Root(t)
	program := kubeProxy(t)
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all, err := dptest.Load(cases)
			if err != nil {
				t.Fatal(err)
			}
			f := newFeed(t, program, mode)
			for _, c := range all {
				t.Run(c.Name, func(t *testing.T) { f.compare(t, c, mode) })
			}
		})
	}
}

// kubeProxy is the binary of the pinned version. Building it takes minutes the
// first time, so that is left to those who want it (make e2e, plumbline bench),
// unless nothing may be skipped.
func kubeProxy(t *testing.T) string {
	t.Helper()
	path, built, err := stage.BuiltKubernetesBinary("kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	if built {
		return path
	}
	if os.Getenv("REQUIRE") != "1" {
		t.Skip("upstream kube-proxy is not built yet; make e2e or plumbline bench builds it")
	}
	if path, err = stage.KubernetesBinary(t.Context(), "kube-proxy", slog.Default()); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *feed) compare(t *testing.T, c *dptest.Case, mode string) {
	if _, skip := c.Peer(mode); skip != "" {
		t.Skip(skip)
	}
	if err := errors.Join(f.clear(), f.run(c.Options)); err != nil {
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
