package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Namespaces of tests that go on, as this one, are left alone by clean, which says so.
func TestCleanLeavesTests(t *testing.T) {
	netns.ForTest(t, "left")
	var said strings.Builder
	ids, err := leave(&said, nil)
	id := fmt.Sprintf("t%d", os.Getpid())
	if err != nil || !slices.Contains(ids, id) || !strings.Contains(said.String(), "tests go on (plumb-"+id+"-...)") {
		t.Errorf("leaves %v, %v, and says %q", ids, err, said.String())
	}
}

// While a run has what all share, clean takes what carries the id of a dead run alone,
// and refuses to take what that run may use.
func TestCleanBesideRun(t *testing.T) {
	need.Root(t)
	state := t.TempDir()
	dead, shared := filepath.Join(state, host.RunsDir, "gone-aaaaa"), filepath.Join(state, "plumbline-run.kubeconfig")
	for _, path := range []string{filepath.Join(dead, "lock"), shared} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := host.TakeLock(t.Context(), state, 0, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	me := fmt.Sprintf("a run goes on (process %d ", os.Getpid())
	for _, tc := range []struct {
		flags         cleanFlags
		said, refused string
		gone          bool
	}{
		{cleanFlags{host: true}, "", "--host and --cache take away what a run uses", false},
		{cleanFlags{list: true}, "file " + dead + "\n", "", false},
		{cleanFlags{}, "removed file " + dead + "\n", "", true},
	} {
		var said strings.Builder
		tc.flags.stateDir = state
		err := runClean(t.Context(), &said, tc.flags)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%+v: %v", tc.flags, err)
		}
		if err == nil && !strings.Contains(said.String(), me) || !strings.HasSuffix(said.String(), tc.said) || strings.Contains(said.String(), shared) {
			t.Errorf("%+v says %q", tc.flags, said.String())
		}
		if _, err := os.Stat(dead); os.IsNotExist(err) != tc.gone {
			t.Errorf("%+v: what a dead run left: %v", tc.flags, err)
		}
	}
	if _, err := os.Stat(shared); err != nil {
		t.Error(err)
	}
}
