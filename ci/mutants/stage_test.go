package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A failure is the mutant's if nothing else can have been it. The one mutant here has F return false.
func TestKillsAreConfirmed(t *testing.T) {
	for _, c := range []struct {
		name   string
		kernel bool
		does   string // with the mutant
		row    string // of the mutant
		says   string
	}{
		{"a test fails", false, `t.Error()`, "killed first TestF", ""},
		{"it fails once", false, `once(t)`, "killed first TestF", ""},
		{"it fails once, where the kernel is asked", true, `once(t)`, "survived", ""},
		{"it fails where the kernel is asked", true, `t.Error()`, "killed first TestF", ""},
		{"it hangs", false, `for !F() {}`, "hung first", ""},
		{"it hangs once", false, `if !noted("once") { note("once"); for !F() {} }`, "survived", ""},
		{"it hangs once, then fails", false, `if !noted("once") { note("once"); for !F() {} }; t.Error()`, "killed first TestF", ""},
		{"it exits", false, `os.Exit(3)`, "killed first exit", ""},
		{"it exits, and does so from now on", false, `note("broken"); os.Exit(3)`, "", "after a mutant that ended them with exit: tests of a without a mutant: exit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			confirmTree(t, c.does)
			patience := patience
			if c.row == "hung first" { // whatever the host does
				patience = time.Second
			}
			j := &judge{targets: []target{{"a", nil, []stage{{name: "first", folder: "a", run: ".", kernel: c.kernel}}}}, chosen: regexp.MustCompile("."), patience: patience}
			_, err := j.all(t.Context())
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || len(j.table.rows) > 0 {
					t.Errorf("it says: %v, and keeps %d rows", err, len(j.table.rows))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := j.table.rows["a/a.go:F:nothing:1"]
			if got := strings.TrimSpace(r.Verdict + " " + r.By + " " + r.Test); got != c.row || len(j.table.rows) != 1 {
				t.Errorf("%s, of %d; want %s", got, len(j.table.rows), c.row)
			}
		})
	}
}

// A test process that ends without tidying up leaves no namespaces.
func TestNoNamespacesAreLeft(t *testing.T) {
	need.Root(t)
	confirmTree(t, `
		name := fmt.Sprintf("plumb-t%d-1-left", os.Getpid())
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		note(name)
		os.Exit(3)`)
	j := &judge{targets: []target{{"a", nil, []stage{{name: "first", folder: "a", run: "."}}}}, chosen: regexp.MustCompile("."), patience: patience}
	if _, err := j.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob("a/plumb-t*")
	if err != nil || len(made) != 1 {
		t.Fatalf("namespaces that were made: %q, %v", made, err)
	}
	path := filepath.Join(netns.Dir, filepath.Base(made[0]))
	t.Cleanup(func() { _ = netns.Delete(filepath.Base(made[0])) })
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// confirmTree has a test that does something with the only mutant there is.
func confirmTree(t *testing.T, does string) {
	t.Helper()
	tree(t, map[string]string{
		"ci/README": "the table's folder",
		"a/a.go":    "package a\n\nfunc F() bool { return true }\n",
		"a/a_test.go": `package a

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var _, _ = fmt.Sprint, exec.Command

func TestF(t *testing.T) {
	if noted("broken") {
		os.Exit(3)
	}
	if !F() {
		` + does + `
	}
}

func once(t *testing.T) {
	if !noted("once") {
		note("once")
		t.Error()
	}
}

func noted(name string) bool { _, err := os.Stat(name); return err == nil }

func note(name string) { _ = os.WriteFile(name, nil, 0o600) }
`,
	})
}
