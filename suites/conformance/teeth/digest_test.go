package teeth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row is about what its mutation is made of, through the functions and types that it uses, and not
// about its neighbours or what all have in common.
func TestDigestOfSources(t *testing.T) {
	const file = `package mutant

type changes struct{ of state }

type state struct{ depth int }

func (s *state) grow() { s.depth++ }

func tables() map[string]func(*changes) {
	return map[string]func(*changes){
		"one":   routes(func(s *state) { s.grow() }),
		"other": func(c *changes) { rest(c) },
	}
}

func routes(f func(*state)) func(*changes) { return func(c *changes) { f(&c.of) } }

func rest(*changes) {}
`
	root := t.TempDir()
	path := filepath.Join(root, "suites/conformance/mutant/x.go")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	of := func(text string) string {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		src, err := readSources(root)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := src.digest("one", mutation{})
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	before := of(file)
	for _, c := range []struct {
		from, to string
		changes  bool
	}{
		{`{ s.grow() }`, `{ s.grow(); s.grow() }`, true},
		{`{ f(&c.of) }`, `{ f(nil) }`, true},
		{`s.depth++`, `s.depth--`, true},
		{`{ rest(c) }`, `{}`, false},
		{`func rest(*changes) {}`, `func rest(*changes) { _ = 1 }`, false},
		{`{ of state }`, `{ of state; more int }`, false},
	} {
		text := strings.Replace(file, c.from, c.to, 1)
		if text == file {
			t.Fatalf("%s is not in the file", c.from)
		}
		if got := of(text) != before; got != c.changes {
			t.Errorf("%s for %s: the digest is another: %v, want %v", c.to, c.from, got, c.changes)
		}
	}
}
