package behaviours

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

var update = flag.Bool("update", false, "write suites/catalog.yaml and LEVELS.md anew")

const catalogueFile = "../../catalog.yaml"

// The catalogue is what the project promises to test. A diff is a change of it.
func TestCatalogue(t *testing.T) {
	text, err := kit.Catalogue(Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(catalogueFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(catalogueFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(old), string(text)); diff != "" {
		t.Errorf("%s is not what the behaviours say (-file +behaviours); go test ./suites/conformance/behaviours -update writes it:\n%s", catalogueFile, diff)
	}
}

// Each file of this folder has one behaviour, is called after its id, and is listed; but for the list
// and what behaviours share.
func TestFolderIsListed(t *testing.T) {
	all := Catalogue()
	if !slices.IsSortedFunc(All(), func(a, b kit.Behaviour) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("All is not in the order of ids")
	}
	shared := []string{"apart.go", "behaviours.go", "fronts.go", "hints.go", "traffic.go"}
	want := slices.Clone(shared)
	for i, b := range all {
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		if i > 0 && b.ID == all[i-1].ID {
			t.Errorf("behaviour %s is there twice", b.ID)
		}
		want = append(want, File(b.ID))
	}
	have, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	have = slices.DeleteFunc(have, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the folder has other files than its behaviours (-behaviours +folder):\n%s", diff)
	}
	for _, file := range have {
		if n := behavioursIn(t, file); n != 1 && !slices.Contains(shared, file) {
			t.Errorf("%s has %d behaviours, want one", file, n)
		}
	}
}

// behavioursIn counts the functions of a file that return a behaviour.
func behavioursIn(t *testing.T, file string) (n int) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
			continue
		}
		if s, ok := fn.Type.Results.List[0].Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Behaviour" {
			n++
		}
	}
	return n
}
