package presubmit

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const graphPage = "../../docs/imports.md"

func TestGraph(t *testing.T) {
	root, tree := repository(t)
	files, err := GoFiles(root, tree)
	if err != nil {
		t.Fatal(err)
	}
	page, up := Graph(files)
	report(t, up)
	if *update {
		if err := os.WriteFile(graphPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, root, strings.TrimPrefix(graphPage, "../../")), page); diff != "" {
		t.Errorf("docs/imports.md is not what is imported; make update writes it (-page +found):\n%s", diff)
	}
}

func TestGraphFindsWhatLeadsUp(t *testing.T) {
	var files []*File
	for name, text := range map[string]string{
		"fixtures/kind/kind.go":  "package kind\nimport _ \"github.com/plumbline/plumbline/suites/stage\"\n",
		"suites/stage/stage.go":  "package stage\nimport _ \"github.com/plumbline/plumbline/fixtures/kind\"\n",
		"fixtures/netns/ns.go":   "package netns\nimport (\n_ \"os\"\n_ \"github.com/plumbline/plumbline/ci\"\n)\n",
		"suites/stage/a_test.go": "package stage\nimport _ \"github.com/plumbline/plumbline/tools/plumbline\"\n",
	} {
		f, err := ParseFile(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	page, up := Graph(files)
	if len(up) != 1 || up[0].File != "fixtures/kind/kind.go" || !strings.Contains(up[0].Text, "suites/stage") {
		t.Errorf("found %v", up)
	}
	for _, want := range []string{"| suites/stage | fixtures/kind |", "| fixtures/netns | ci |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
