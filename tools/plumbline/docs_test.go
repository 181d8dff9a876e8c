package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/schema"
)

// A command in the docs is a line of an indented block, or between backquotes.
var (
	docLine   = regexp.MustCompile(`(?m)^    +(?:- run: )?(?:sudo )?(?:env "[^"]*" )?((?:~/go/bin/|bin/)?plumbline|make|(?:bin/)?plumb-plan) (.*)$`)
	docInline = regexp.MustCompile("`(?:sudo )?((?:bin/)?plumbline|make) ([a-z][^`]*)`")
)

// TestDocs: every command that README and docs name is one that is there, with flags that it has
// and, where there is a choice, values that it takes. What they do is other tests' matter: those of
// the verbs, `make lab`, `make e2e`.
func TestDocs(t *testing.T) {
	root, err := schema.Root()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		joined := regexp.MustCompile(`\\\n\s+`).ReplaceAllString(string(text), " ")
		for _, m := range append(docLine.FindAllStringSubmatch(joined, -1), docInline.FindAllStringSubmatch(strings.ReplaceAll(joined, "\n", " "), -1)...) {
			found++
			args, err := words(m[2])
			if err == nil {
				switch filepath.Base(m[1]) {
				case "plumbline":
					err = takes(args)
				case "make":
					err = makes(string(makefile), args)
				}
			}
			if err != nil {
				t.Errorf("%s: %s %s: %v", filepath.Base(page), m[1], m[2], err)
			}
		}
	}
	if found < 80 {
		t.Errorf("%d commands found in the docs: the patterns miss some", found)
	}
}

// words are a shell's of a line without its comment, up to a pipe or a redirection.
func words(line string) (out []string, err error) {
	word, open, quote := "", false, rune(0)
	for _, c := range line + " " {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && c == ' ':
			if word == "" && !open {
				continue
			}
			if strings.HasPrefix(word, "#") || strings.HasPrefix(word, ">") || word == "|" || word == "&&" {
				return out, nil
			}
			out, word, open = append(out, word), "", false
		default:
			word, open = word+string(c), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is left open")
	}
	return out, nil
}

// takes parses what plumbline is called with.
func takes(args []string) error {
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	root.SetOut(io.Discard)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if slices.Contains(args, "--help") {
		return nil
	}
	if err := cmd.ParseFlags(slices.DeleteFunc(rest, func(a string) bool { return a == "…" || a == "..." })); err != nil {
		return err
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		names := strings.Split(strings.Trim(f.Value.String(), "[]"), ",")
		switch f.Name {
		case "scenario":
			for _, n := range names {
				if _, wrong := disruption.Find(n); wrong != nil && len(n) > 1 { // "a,b" stands for any
					err = wrong
				}
			}
		case "profile":
			if _, wrong := profile.Parse(f.Value.String()); wrong != nil {
				err = wrong
			}
		case "cluster":
			if !slices.Contains([]string{"kind", "lab", "existing"}, f.Value.String()) {
				err = fmt.Errorf("there is no kind of cluster %s", f.Value)
			}
		}
	})
	return err
}

// flagsOf says which command gets what a variable of the Makefile holds.
var flagsOf = map[string][]string{
	"E2E": {"run"}, "LAB": {"run"}, "AGREE": {"run"}, "BENCH": {"bench"}, "CONFORMANCE": {"conformance"},
}

// makes holds a call of make against the Makefile.
func makes(makefile string, args []string) error {
	for _, a := range args {
		name, value, isVariable := strings.Cut(a, "=")
		switch {
		case isVariable && !strings.Contains(makefile, "$("+name+")"):
			return fmt.Errorf("the Makefile has no %s", name)
		case isVariable && flagsOf[name] != nil:
			flags, err := words(value)
			if err != nil {
				return err
			}
			if err := takes(append(slices.Clone(flagsOf[name]), flags...)); err != nil {
				return err
			}
		case !isVariable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(a)+`:`).MatchString(makefile):
			return fmt.Errorf("the Makefile has no %s", a)
		}
	}
	return nil
}

func TestWords(t *testing.T) {
	for line, want := range map[string]string{
		`run --rows=a,b   # beside`:          "run|--rows=a,b",
		`compare A B -o markdown >>"$OUT"`:   "compare|A|B|-o|markdown",
		`bench BENCH='--rows=a --x=1' | cat`: "bench|BENCH=--rows=a --x=1",
		`x ""`:                               "x|",
	} {
		got, err := words(line)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	if _, err := words("run 'left open"); err == nil {
		t.Error("an open quote is taken")
	}
	for _, bad := range [][]string{{"runn"}, {"run", "--no-such"}, {"run", "--delay=5"}, {"run", "--scenario=rolling"}, {"run", "--profile=l7"}, {"run", "--cluster=minikube"}} {
		if takes(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, bad := range [][]string{{"labb"}, {"lab", "LABB=1"}, {"e2e", "E2E=--no-such"}} {
		if makes("lab:\n\t$(LAB)\ne2e:\n\t$(E2E)\n", bad) == nil {
			t.Errorf("make %q is taken", bad)
		}
	}
}
