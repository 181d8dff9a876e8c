package presubmit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFilesStandOnEachOther(t *testing.T) {
	for _, folder := range layered {
		p, err := Load("../..", folder)
		if err != nil {
			t.Fatal(err)
		}
		found := FileCircles(p)
		for i := range found {
			found[i].File = folder + "/" + found[i].File
		}
		report(t, found)
	}
}

// Two files that call each other, one of them by a method; a third that both may use.
func TestFileCircles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":   "module example.com/m\n\ngo 1.26\n",
		"pkg/a.go": "package pkg\n\ntype T struct{}\n\nfunc A(t T) { t.up(); base() }\n",
		"pkg/b.go": "package pkg\n\nfunc (t T) up() { A(t); base() }\n",
		"pkg/c.go": "package pkg\n\nfunc base() {}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Load(dir, "pkg")
	if err != nil {
		t.Fatal(err)
	}
	found := FileCircles(p)
	if len(found) != 2 || found[0].File != "a.go" || found[0].Line != 5 || found[1].File != "b.go" {
		t.Errorf("found %v, want the calls of a.go and b.go", found)
	}
}
