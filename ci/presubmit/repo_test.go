package presubmit

import (
	"bytes"
	"go/format"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/ci"
)

// Rules of single Go files, by the name of the subtest.
var rules = map[string]func(*File) []Finding{
	"imports": Imports, "lengths": Lengths, "no init": NoInit, "only main": OnlyMain, "pure": Pure, "errors": Errors,
}

func repository(t *testing.T) (fs.FS, []string) {
	t.Helper()
	root := os.DirFS("../..")
	tree, err := Tree(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(tree, "ci/presubmit/repo_test.go") {
		t.Fatal("this is not the root of the repository")
	}
	return root, tree
}

func TestGo(t *testing.T) {
	root, tree := repository(t)
	report(t, TopLevel(tree))
	files, err := GoFiles(root, tree)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) { report(t, Check(files, rule)) })
	}
	t.Run("documented", func(t *testing.T) { report(t, Undocumented(files)) })
	t.Run("gofmt", func(t *testing.T) {
		for _, f := range files {
			text := read(t, root, f.Path)
			if formatted, err := format.Source([]byte(text)); err != nil || !bytes.Equal(formatted, []byte(text)) {
				t.Errorf("%s is not as gofmt writes it (%v)", f.Path, err)
			}
		}
	})
}

func TestText(t *testing.T) {
	root, tree := repository(t)
	for _, name := range tree {
		if !IsText(name) {
			continue
		}
		text := read(t, root, name)
		report(t, Words(name, text))
		report(t, Pages(name, text, tree))
		report(t, Shell(name, text))
	}
}

func TestPinsAgree(t *testing.T) {
	root, tree := repository(t)
	v, err := ci.Pins()
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, name := range tree {
		text := read(t, root, name)
		switch {
		case path.Base(name) == "go.mod" || path.Base(name) == "go.mod.txt": // a nested module as text
			report(t, Pins(name, text, v))
			for _, module := range []string{"k8s.io/kubernetes ", "etcd/server/v3 ", "containerd/v2 ", "coredns/coredns ", "sigs.k8s.io/kind "} {
				required[module] = required[module] || strings.Contains(text, module)
			}
		case strings.HasPrefix(path.Base(name), "Dockerfile"):
			report(t, Dockerfile(name, text, v))
		}
	}
	for module, found := range required {
		if !found {
			t.Errorf("no go.mod requires %s: its pin pins nothing", module)
		}
	}
}

func report(t *testing.T, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

func read(t *testing.T, root fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Where the agent's Events get their reasons: a constant, a backend's Look, or in the call.
var reasons = regexp.MustCompile(`(?:\breason[A-Z]\w* +?= |\bReason: |\bEventTypeWarning, )"(\w+)"`)

// TestEventsAreExplained: each Event of the agent has a row for its reader, and no row is of an Event that there is not.
func TestEventsAreExplained(t *testing.T) {
	root, tree := repository(t)
	told := map[string]bool{}
	for _, name := range tree {
		if !strings.HasPrefix(name, "dataplane/") || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range reasons.FindAllStringSubmatch(read(t, root, name), -1) {
			told[m[1]] = true
		}
	}
	rows := map[string]bool{}
	_, table, _ := strings.Cut(read(t, root, "docs/troubleshooting.md"), "\n## Events of plumb-proxy\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
	}
	if len(told) < 10 {
		t.Errorf("found only %v", told)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("docs/troubleshooting.md (-told +explained):\n%s", diff)
	}
}
