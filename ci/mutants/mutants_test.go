package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/ci/compiled"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module "+compiled.Module+"\n\ngo 1.26\n")
	write(t, "go.sum", "")
	for name, text := range files {
		write(t, name, text)
	}
}

const operated = `package a

import "errors"

type Protocol int

const (
	TCP Protocol = 6
	UDP Protocol = 17
)

type T struct{ p, q int }

var table = []Protocol{TCP, UDP}

func (t *T) f(a, b int) (out []int, err error) {
	if a < b && b > 2 && a != 3 {
		out = append(out, a)
		return out, errors.Join(errors.New("a"), errors.New("b"))
	}
	switch {
	case t.p == 1:
		t.q++
	case a > 1:
		t.g(T{p: 1})
	}
	return append(out, a, b), nil
}

func (t *T) g(T) { t.p = 2 }

func (*T) is4(p Protocol) bool { return p == TCP }

func number(p Protocol) int {
	switch p {
	case TCP:
		return 1
	case UDP:
		return 2
	}
	return 3
}
`

// What each operator makes of a source, by name. What does not compile is left out: a
// constant that is a case twice.
func TestMutants(t *testing.T) {
	tree(t, map[string]string{"a/a.go": operated})
	src, err := load(".", "a")
	if err != nil {
		t.Fatal(err)
	}
	all, err := src.mutants(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range all {
		fmt.Fprintf(&got, "%s|%d|%s\n", strings.TrimPrefix(m.Name, "a/a.go:"), m.Line, m.Change)
	}
	if diff := cmp.Diff(operations, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const operations = `table:element:1|14|[]Protocol{TCP, UDP} -> []Protocol{UDP}
table:element:2|14|[]Protocol{TCP, UDP} -> []Protocol{TCP}
table:another:1|14|TCP -> UDP
table:another:2|14|UDP -> TCP
T.f:nothing:1|17|if a < b && b > 2 && a != 3 { out = append(out, a) return out, errors.Join(errors.New("a")… -> return; if a < b && b > 2 && a != 3 { out = append(out, a) return out, errors.Join(errors.…
T.f:negate:1|17|a < b && b > 2 && a != 3 -> !(a < b && b > 2 && a != 3)
T.f:operand:1|17|a < b && b > 2 && a != 3 -> b > 2 && a != 3
T.f:operand:2|17|a < b && b > 2 && a != 3 -> a < b && a != 3
T.f:operand:3|17|a < b && b > 2 && a != 3 -> a < b && b > 2
T.f:compare:1|17|a < b -> a <= b
T.f:compare:2|17|b > 2 -> b >= 2
T.f:compare:3|17|a != 3 -> a == 3
T.f:without:1|18|out = append(out, a) -> nothing
T.f:negate:2|24|a > 1 -> !(a > 1)
T.f:case:1|22|case t.p == 1: t.q++ -> nothing
T.f:case:2|24|case a > 1: t.g(T{p: 1}) -> nothing
T.f:without:2|23|t.q++ -> nothing
T.f:compare:4|22|t.p == 1 -> t.p != 1
T.f:without:3|25|t.g(T{p: 1}) -> nothing
T.f:compare:5|24|a > 1 -> a >= 1
T.f:element:1|25|T{p: 1} -> T{}
T.f:element:2|27|append(out, a, b) -> append(out, b)
T.f:element:3|27|append(out, a, b) -> append(out, a)
T.g:nothing:1|30|t.p = 2 -> return; t.p = 2
T.g:without:1|30|t.p = 2 -> nothing
T.is4:nothing:1|32|return p == TCP -> return *new(bool); return p == TCP
T.is4:compare:1|32|p == TCP -> p != TCP
T.is4:another:1|32|TCP -> UDP
number:nothing:1|35|switch p { case TCP: return 1 case UDP: return 2 } -> return *new(int); switch p { case TCP: return 1 case UDP: return 2 }
number:case:1|36|case TCP: return 1 -> nothing
number:case:2|38|case UDP: return 2 -> nothing
`

// judged are the verdicts of a run in the working directory, by mutant, and its sum.
func judged(t *testing.T, j *judge) (map[string]string, summary) {
	t.Helper()
	j.chosen, j.contract = regexp.MustCompile("."), true
	sum, err := j.all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range j.table.rows {
		_, name, _ := strings.Cut(r.Name, ":")
		out[name] = strings.TrimSpace(r.Verdict + " " + r.By + " " + r.Test)
	}
	return out, sum
}

var judgedTree = map[string]string{
	"a/a.go": `package a

var Up = []bool{true}

func Late(n int) int {
	if n > 9 {
		n = 9
	}
	return n
}

func Loop(n int) (sum int) {
	for n > 0 {
		n--
		sum++
	}
	return sum
}

func Unseen(_ int) bool { return true }
`,
	"a/a_test.go": `package a

import "testing"

func TestLoop(t *testing.T) {
	if Loop(3) != 3 {
		t.Error("not 3")
	}
}
`,
	"b/b_test.go": `package b

import (
	"testing"

	"` + compiled.Module + `/a"
)

func TestLate(t *testing.T) {
	if a.Late(10) != 9 || a.Late(8) != 8 || len(a.Up) != 1 {
		t.Error("too late")
	}
}
`,
}

// The cheapest tests that notice a mutant are named; one that never ends is noticed; who needs
// a program of his own has it. What was judged is judged again when the tests that gave the
// verdict have changed.
func TestJudge(t *testing.T) {
	tree(t, judgedTree)
	write(t, "ci/README", "the table's folder")
	targets := []target{{"a", nil, []stage{{"first", "a", ".", false}, {"later", "b", ".", true}}}}
	want := map[string]string{
		"Up:element:1":     "killed later TestLate",
		"Late:nothing:1":   "killed later TestLate",
		"Late:negate:1":    "killed later TestLate",
		"Late:compare:1":   "survived",
		"Late:without:1":   "killed later TestLate",
		"Loop:nothing:1":   "killed first TestLoop",
		"Loop:compare:1":   "killed first TestLoop",
		"Loop:without:1":   "hung first",
		"Loop:without:2":   "killed first TestLoop",
		"Unseen:nothing:1": "survived",
	}
	got, sum := judged(t, &judge{targets: targets, patience: time.Second})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"not noticed, and without a line in ci/survivors.tsv: a/a.go:Late:compare:1: n > 9 -> n >= 9",
		"not noticed, and without a line in ci/survivors.tsv: a/a.go:Unseen:nothing:1: return true -> return *new(bool); return true",
	}, sum.faults); diff != "" || sum.good() {
		t.Errorf("survivors without a reason (-want +got):\n%s", diff)
	}
	write(t, reasonsFile, reasonsHead+"\na/a.go:Late:compare:1\tn > 9 -> n >= 9\tsame\t9 is 9\na/a.go:Unseen:nothing:1\treturn true -> return *new(bool); return true\topen\tnobody asks\n")
	j := &judge{targets: targets, until: time.Now(), patience: time.Second}
	if _, sum = judged(t, j); sum.String() != "8 mutants noticed, 1 not; 1 are as without" || sum.good() {
		t.Errorf("all are judged: %s, good: %t", sum, sum.good())
	}
	write(t, "b/b_test.go", judgedTree["b/b_test.go"]+"\nfunc TestMore(t *testing.T) { a.Unseen(1) }\n")
	if _, sum = judged(t, j); sum.killed != 4 || sum.unjudged != 6 {
		t.Errorf("with other tests in b, of which it has no time for: %+v", sum)
	}
	write(t, "b/b_test.go", strings.Replace(judgedTree["b/b_test.go"], "len(a.Up)", "!a.Unseen(1) || len(a.Up)", 1))
	j.until = time.Time{}
	want["Unseen:nothing:1"] = "killed later TestLate"
	if got, sum = judged(t, j); cmp.Diff(want, got) != "" || sum.killed != 9 || sum.good() || len(sum.faults) != 1 || !strings.HasPrefix(sum.faults[0], "noticed, but with a line") {
		t.Errorf("with a test more: %+v (-want +got):\n%s", sum, cmp.Diff(want, got))
	}
	write(t, reasonsFile, reasonsHead+"\na/a.go:Late:compare:1\tn > 9 -> n >= 9\tsame\t9 is 9\n")
	if _, sum = judged(t, j); !sum.good() {
		t.Errorf("with the reason gone: %s", sum)
	}
}

// Tests that fail without a mutant say nothing of one.
func TestJudgeRefuses(t *testing.T) {
	tree(t, judgedTree)
	write(t, "ci/README", "the table's folder")
	j := &judge{targets: []target{{"a", nil, []stage{{"first", "a", ".", false}}}}, chosen: regexp.MustCompile("."), patience: time.Second}
	write(t, "a/b_test.go", "package a\n\nimport \"testing\"\n\nfunc TestRed(t *testing.T) { t.Error(\"red\") }\n")
	if _, err := j.all(t.Context()); err == nil || !strings.Contains(err.Error(), "tests of a without a mutant: TestRed") {
		t.Errorf("it says: %v", err)
	}
	j.targets[0].stages[0].run = "^TestNone$"
	if _, err := j.all(t.Context()); err == nil || !strings.Contains(err.Error(), "none is called ^TestNone$") {
		t.Errorf("it says: %v", err)
	}
}

// Each survivor that the table names has a reason, nothing else has, and each reason a mutant that there is.
func TestReasons(t *testing.T) {
	t.Chdir("../..")
	why, err := readReasons(reasonsFile)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := readTable(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, target := range targets {
		src, err := load(".", target.folder)
		if err != nil {
			t.Fatal(err)
		}
		all, err := src.changes(target.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			there[m.Name] = m.Change
		}
	}
	for name, r := range why.rows {
		if there[name] != r.Change {
			t.Errorf("%s: a reason for a mutant that is not there: %s has %q, the source %q", name, reasonsFile, r.Change, there[name])
		}
	}
	for name, r := range kept.rows {
		if _, explained := why.rows[name]; explained != (r.Verdict == survived) && there[name] == r.Change {
			t.Errorf("%s, %s: %s, a line in %s: %t", name, r.Change, r.Verdict, reasonsFile, explained)
		}
	}
}

func TestFilesRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "reasons", reasonsHead+"\na\tb\tmaybe\tc\n")
	if _, err := readReasons("reasons"); err == nil || !strings.Contains(err.Error(), "reasons:2: want same or open") {
		t.Errorf("it says: %v", err)
	}
	for text, says := range map[string]string{
		tableHead + "\na\tb\n":                "table:2: 2 fields, want 7",
		tableHead + "\na\tb\tc\td\te\tf\tg\n": "table:2: ",
		"else\ta\tb\tc\td\te\tf\n":            "table:1: want",
	} {
		write(t, "table", text)
		if _, err := readTable("table"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q says: %v", text, err)
		}
	}
}
