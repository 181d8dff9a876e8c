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
	of := func(text string) string {
		writeFile(t, path, text)
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

// A row is about what its behaviours share with others in their package, as far as they use it, and
// not about the behaviours beside them.
func TestDigestOfBehaviours(t *testing.T) {
	const mine, shared, beside = "package behaviours\n\nimport \"kit\"\n\nfunc aB() kit.Behaviour { return kit.Behaviour{ID: \"a-b\", Run: ask(2), Never: kit.wait} }\n",
		`package behaviours

type clients int

func ask(of clients) func() { _ = other; return func() { of.each() } }

func (c clients) each() { expect(c) }

func expect(clients) {}

func wait() {}

func pause() {}

func other() kit.Behaviour { ask(1); pause(); return kit.Behaviour{ID: "other"} }
`,
		"package behaviours\n\nfunc c() kit.Behaviour { ask(3); return kit.Behaviour{ID: \"c\"} }\n"
	root := t.TempDir()
	of := func(name, text string) string {
		t.Helper()
		files := map[string]string{"a_b.go": mine, "shared.go": shared, "c.go": beside, name: text}
		for name, text := range files {
			writeFile(t, filepath.Join(root, "suites/conformance/behaviours", name), text)
		}
		src, err := readSources(root)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := src.digest("one", mutation{Caught: []string{"a-b"}})
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	before := of("a_b.go", mine)
	for _, c := range []struct {
		name, text, from, to string
		changes              bool
	}{
		{"a_b.go", mine, "ask(2)", "ask(3)", true},
		{"shared.go", shared, "of.each()", "", true},
		{"shared.go", shared, "{ expect(c) }", "{}", true},
		{"shared.go", shared, "func expect(clients) {}", "func expect(clients) { panic(1) }", true},
		{"shared.go", shared, "type clients int", "type clients uint", true},
		{"shared.go", shared, "func wait() {}", "func wait() { panic(1) }", false},
		{"shared.go", shared, "func pause() {}", "func pause() { panic(1) }", false},
		{"shared.go", shared, "ask(1)", "ask(2)", false},
		{"c.go", beside, "ask(3)", "ask(2)", false},
	} {
		text := strings.Replace(c.text, c.from, c.to, 1)
		if text == c.text {
			t.Fatalf("%s is not in %s", c.from, c.name)
		}
		if got := of(c.name, text) != before; got != c.changes {
			t.Errorf("%s for %s: the digest is another: %v, want %v", c.to, c.from, got, c.changes)
		}
	}
	// One that shares nothing is about its file as it stands.
	const alone = "package behaviours\n\n// Alone.\nfunc aB() kit.Behaviour { return kit.Behaviour{} }\n"
	was := of("a_b.go", alone)
	if of("a_b.go", alone+"// more\n") == was {
		t.Error("a comment more at the end of a behaviour: the digest is the same")
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
