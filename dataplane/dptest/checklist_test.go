package dptest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

// item is one of dataplane/testdata/checklist.yaml: a behaviour that is promised,
// and what holds it.
type item struct {
	ID     string   `json:"id"`
	Level  string   `json:"level"` // how firmly: M must, S should, and so on, as the list's head explains
	Text   string   `json:"text"`
	Source string   `json:"source"`
	Cases  []string `json:"cases"` // of dataplane/testdata, without .txtar
	Tests  []string `json:"tests"` // package folder and test, such as "dataplane/loop TestAtOnce"
}

const (
	checklistFile  = "../testdata/checklist.yaml"
	checklistTable = "../CHECKLIST.md"
	root           = "../.."
)

// TestChecklist finds items that nothing holds, and holders that do not exist,
// and compares the table that is made of the list.
func TestChecklist(t *testing.T) {
	items := readChecklist(t)
	cases, err := dptest.Load("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, hole := range holes(items, cases, testsIn) {
		t.Error(hole)
	}
	table := checklistText(items)
	if *update {
		if err := os.WriteFile(checklistTable, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(checklistTable)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), table); diff != "" {
		t.Errorf("%s (-file +now; run with -update):\n%s", checklistTable, diff)
	}
}

func readChecklist(t *testing.T) []item {
	t.Helper()
	raw, err := os.ReadFile(checklistFile)
	if err != nil {
		t.Fatal(err)
	}
	var items []item
	if err := yaml.UnmarshalStrict(raw, &items); err != nil {
		t.Fatalf("read %s: %v", checklistFile, err)
	}
	return items
}

// holes are the mistakes of a list. tests returns the tests of a folder.
func holes(items []item, cases []*dptest.Case, tests func(folder string) ([]string, error)) []string {
	var out []string
	seen := map[string]bool{}
	for _, it := range items {
		bad := func(format string, args ...any) { out = append(out, it.ID+": "+fmt.Sprintf(format, args...)) }
		if it.ID == "" || it.Level == "" || it.Text == "" || it.Source == "" {
			bad("id, level, text and source must be there: %+v", it)
		}
		if seen[it.ID] {
			bad("twice")
		}
		seen[it.ID] = true
		if len(it.Cases)+len(it.Tests) == 0 {
			bad("no case and no test holds it: %s", it.Text)
		}
		for _, name := range it.Cases {
			if !slices.ContainsFunc(cases, func(c *dptest.Case) bool { return c.Name == name }) {
				bad("no case %s", name)
			}
		}
		for _, test := range it.Tests {
			folder, name, _ := strings.Cut(test, " ")
			name, _, _ = strings.Cut(name, "/")
			known, err := tests(folder)
			if err != nil || !slices.Contains(known, name) {
				bad("no test %s (%v)", test, err)
			}
		}
	}
	return out
}

// testsIn are the tests and fuzz tests of a folder of the repository.
func testsIn(folder string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out, nil
}

func checklistText(items []item) string {
	var b strings.Builder
	b.WriteString("<!-- Made of testdata/checklist.yaml by: go test ./dataplane/dptest -run TestChecklist -update -->\n\n")
	b.WriteString("# What is promised, and what holds it\n\n")
	b.WriteString("| item | level | behaviour | source | cases and tests |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, it := range items {
		var held []string
		for _, name := range it.Cases {
			held = append(held, fmt.Sprintf("[%s](testdata/%s.txtar)", name, name))
		}
		for _, name := range it.Tests {
			held = append(held, "`"+name+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", it.ID, it.Level, cell.Replace(it.Text), cell.Replace(it.Source), strings.Join(held, ", "))
	}
	return b.String()
}

// TestChecklistFindsHoles: an item for each mistake.
func TestChecklistFindsHoles(t *testing.T) {
	good := item{ID: "1", Level: "M", Text: "x", Source: "KEP", Tests: []string{"dataplane/dptest TestChecklistFindsHoles/sub"}}
	with := func(change func(*item)) []item {
		it := good
		change(&it)
		return []item{it}
	}
	for _, tc := range []struct {
		items []item
		want  string
	}{
		{[]item{good}, ""},
		{[]item{good, good}, "twice"},
		{with(func(it *item) { it.Tests = nil }), "no case and no test"},
		{with(func(it *item) { it.Cases = []string{"no-such"} }), "no case no-such"},
		{with(func(it *item) { it.Tests = []string{"dataplane/dptest TestNo"} }), "no test"},
		{with(func(it *item) { it.Tests = []string{"dataplane/nowhere TestNo"} }), "no test"},
		{with(func(it *item) { it.Source = "" }), "must be there"},
	} {
		got := strings.Join(holes(tc.items, nil, testsIn), "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%+v: found %q, want %q", tc.items, got, tc.want)
		}
	}
}
