package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quoted is a place in the docs for a function of the sources, and the function if it is there.
var quoted = regexp.MustCompile("(<!-- (\\S+\\.go) (\\w+) -->\n)(?:\n```go\n(?s:.*?)\n```\n)?")

// TestQuoted: a function that the docs show is the one in the sources (-update writes it anew).
func TestQuoted(t *testing.T) {
	root, pages := docs(t)
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want := quoted.ReplaceAllStringFunc(string(text), func(place string) string {
			n++
			m := quoted.FindStringSubmatch(place)
			return m[1] + "\n```go\n" + function(t, filepath.Join(root, m[2]), m[3]) + "\n```\n"
		})
		if want == string(text) {
			continue
		}
		if !*update {
			t.Errorf("%s shows sources as they were (-update writes them anew)", page)
			continue
		}
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n < 2 {
		t.Errorf("%d functions are shown in the docs, want 2 at least", n)
	}
}

// function is the text of a function, without its comment.
func function(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Name.Name == name {
			return strings.TrimSpace(string(text[set.Position(d.Pos()).Offset:set.Position(d.End()).Offset]))
		}
	}
	t.Fatalf("%s has no function %s", file, name)
	return ""
}
