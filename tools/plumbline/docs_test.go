package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/schema"
)

// A command in the docs is a line of an indented block, or between backquotes.
var (
	docLine   = regexp.MustCompile(`(?m)^    +(?:- run: )?(?:sudo )?(?:env "[^"]*" )?((?:~/go/bin/|bin/)?plumbline|make|(?:bin/)?plumb-plan) (.*)$`)
	docInline = regexp.MustCompile("`(?:sudo )?((?:bin/)?plumbline|make) ([a-z][^`]*)`")
)

// TestDocs: every command that README and docs name is one that is there, with arguments and flags
// that it has and, where there is a choice, values that it takes. What they do is other tests'
// matter: those of the verbs, `make lab`, `make e2e`.
func TestDocs(t *testing.T) {
	root, pages := docs(t)
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, planner := string(text), buildPlanner(t)
	found := 0
	check := func(page, program, line string, whole bool) {
		found++
		args, err := words(line)
		switch filepath.Base(program) {
		case "plumbline":
			err = errors.Join(err, takes(args, whole))
		case "make":
			err = errors.Join(err, makes(makefile, args))
		case "plumb-plan":
			err = errors.Join(err, plans(root, planner, args))
		}
		if err != nil {
			t.Errorf("%s: %s %s: %v", filepath.Base(page), program, line, err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		joined := regexp.MustCompile(`\\\n\s+`).ReplaceAllString(string(text), " ")
		for _, m := range docLine.FindAllStringSubmatch(joined, -1) {
			check(page, m[1], m[2], true)
		}
		for _, m := range docInline.FindAllStringSubmatch(strings.ReplaceAll(joined, "\n", " "), -1) {
			check(page, m[1], m[2], false)
		}
	}
	if found < 80 {
		t.Errorf("%d commands found in the docs: the patterns miss some", found)
	}
}

// The example of a dataplane's manifest has the pinned image of upstream's, and names the control
// plane of the default cluster.
func TestExampleDataplane(t *testing.T) {
	root, err := schema.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "examples", "dataplane.yaml"))
	pins, errPins := ci.Pins()
	if err := errors.Join(err, errPins); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(runCommand().Flags().Lookup("name").Usage, ";")
	for _, want := range []string{"image: " + pins.KubeProxyImage + "\n", "https://plumbline-run-control-plane:6443\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in it", want)
		}
	}
	if !strings.Contains(name, "plumbline-run") {
		t.Errorf("the default name of a cluster is another: %s", name)
	}
}

// docs are the project's folder, and its pages for people.
func docs(t *testing.T) (root string, pages []string) {
	t.Helper()
	root, err := schema.Root()
	if err != nil {
		t.Fatal(err)
	}
	if pages, err = filepath.Glob(filepath.Join(root, "docs", "*.md")); err != nil {
		t.Fatal(err)
	}
	return root, append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"))
}

// buildPlanner builds plumb-plan and returns its file.
func buildPlanner(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plumb-plan")
	if out, err := exec.Command("go", "build", "-o", file, "../plumb-plan").CombinedOutput(); err != nil {
		t.Fatalf("build plumb-plan: %v\n%s", err, out)
	}
	return file
}

// plans calls plumb-plan in the project's folder, whose examples it is given.
func plans(root, planner string, args []string) error {
	cmd := exec.Command(planner, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
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

// takes holds what plumbline is called with against its commands. In a sentence arguments may be left
// out; a whole line must have them.
func takes(args []string, whole bool) error {
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
	left := cmd.Flags().Args()
	if cmd.HasSubCommands() && (len(left) > 0 || whole && cmd.Flags().NFlag() == 0) {
		return fmt.Errorf("%s has no %q", cmd.CommandPath(), left)
	}
	if whole {
		if err := errors.Join(cmd.ValidateArgs(left), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return err
		}
	}
	if cmd.PreRunE != nil {
		if err := cmd.PreRunE(cmd, left); err != nil {
			return err
		}
	}
	return choices(cmd.Flags())
}

// choices holds the values of flags that are told only when a command runs.
func choices(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "scenario":
			for n := range strings.SplitSeq(strings.Trim(f.Value.String(), "[]"), ",") {
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
			if err := takes(append(slices.Clone(flagsOf[name]), flags...), true); err != nil {
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
	for _, bad := range []string{
		"runn", "run --no-such", "run --delay=5", "run --scenario=rolling", "run --profile=l7", "run --cluster=minikube",
		"cluster", "cluster remove x", "cluster up a b", "report", "compare A B -o htm", "doctor --fix=lab -o json",
	} {
		if takes(strings.Fields(bad), true) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	for _, bad := range []string{"cluster remove", "doctor -o htm"} {
		if takes(strings.Fields(bad), false) == nil {
			t.Errorf("%s is taken in a sentence", bad)
		}
	}
	if err := takes([]string{"compare"}, false); err != nil {
		t.Errorf("a mention of compare: %v", err)
	}
	for _, bad := range [][]string{{"labb"}, {"lab", "LABB=1"}, {"e2e", "E2E=--no-such"}} {
		if makes("lab:\n\t$(LAB)\ne2e:\n\t$(E2E)\n", bad) == nil {
			t.Errorf("make %q is taken", bad)
		}
	}
	planner := buildPlanner(t)
	root, err := schema.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"--nod worker FILE", "--node worker --render nft FILE", "--node worker --resolve 10.0.0.1,tcp FILE", "--node worker --resolve node,icmp,10.96.0.1:80 FILE", "FILE", ""} {
		if plans(root, planner, strings.Fields(strings.ReplaceAll(bad, "FILE", "docs/examples/objects.yaml"))) == nil {
			t.Errorf("plumb-plan %s is taken", bad)
		}
	}
}
