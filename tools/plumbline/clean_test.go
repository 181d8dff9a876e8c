package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/existing"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Namespaces of tests that go on, as this one, are left alone by clean, which says so.
func TestCleanLeavesTests(t *testing.T) {
	ns := netns.ForTest(t, "left")
	var said strings.Builder
	objects, err := cleanFlags{tests: netns.Tests}.findLeft(t.Context(), &said, cleanOptions(nil, t.TempDir()), nil, nil, "")
	if err != nil || !strings.Contains(said.String(), fmt.Sprintf("tests go on (plumb-t%d-...)", os.Getpid())) {
		t.Errorf("%v, and says %q", err, said.String())
	}
	for _, o := range objects {
		if strings.Contains(o.Name, ns.Name) {
			t.Errorf("finds %s", o)
		}
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
		{cleanFlags{dryRun: true}, "file " + dead + "\n", "", false},
		{cleanFlags{}, "removed file " + dead + "\n", "", true},
	} {
		var said strings.Builder
		tc.flags.stateDir = state
		tc.flags.tests = func() (live, dead []string, err error) { return nil, nil, nil }
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

// In a cluster, what is a dead run's goes, or a run's that the user names; the rest stays.
func TestCleanCluster(t *testing.T) {
	s := api.ForTest(t, api.Config{})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, s.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := existing.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	const id = cluster.Run("run-aaaaa")
	r, err := c.Begin(t.Context(), id, func(error) {}) // as it will be
	if err != nil {
		t.Fatal(err)
	}
	noted := cluster.Left{Objects: []cluster.Ref{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "agent"}, {APIVersion: "v1", Kind: "Secret", Namespace: "x", Name: "none"}}}
	agent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", Labels: map[string]string{cluster.Label: string(id)}}}
	if err := errors.Join(r.Note(t.Context(), noted), s.Apply(agent)); err != nil {
		t.Fatal(err)
	}
	what := "ConfigMap kube-system/agent (run run-aaaaa)\nNamespace plumbline-run-aaaaa-system (run run-aaaaa)\n"
	for _, tc := range []struct {
		flags         cleanFlags
		said, refused string
	}{
		{cleanFlags{}, "run run-aaaaa goes on: left alone\nno dead run is here\n", ""},
		{cleanFlags{run: "run-bbbbb"}, "", "has no run run-bbbbb; it has: [run-aaaaa]"},
		{cleanFlags{run: "run-aaaaa", dryRun: true}, what, ""},
		{cleanFlags{run: "run-aaaaa"}, "removed " + strings.Replace(what, "\nN", "\nremoved N", 1), ""},
		{cleanFlags{}, "no dead run is here\n", ""},
	} {
		var said strings.Builder
		tc.flags.kubeconfig = file
		err := cleanCluster(t.Context(), &said, tc.flags)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%+v: %v", tc.flags, err)
		}
		if said.String() != tc.said {
			t.Errorf("%+v says %q, want %q", tc.flags, said.String(), tc.said)
		}
	}
	if left := append(s.List(api.Namespaces), s.List(api.ConfigMaps)...); slices.ContainsFunc(left, func(o api.Object) bool { return o.GetLabels()[cluster.Label] != "" }) {
		t.Errorf("left: %v", left)
	}
}
