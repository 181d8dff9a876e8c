package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/ci/compiled"
)

// judged are the verdicts of a run in the working directory, by mutant, and its sum.
func judged(t *testing.T, j *judge) (map[string]string, summary) {
	t.Helper()
	j.chosen = regexp.MustCompile(".")
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

var judgedTargets = []target{{"a", nil, []stage{{name: "first", folder: "a", run: "."}, {name: "later", folder: "b", run: ".", contract: true}}}}

// The cheapest tests that notice a mutant are named; one that never ends is noticed; who needs
// a program of his own has it. What was judged is judged again when the tests that gave the
// verdict have changed.
func TestJudge(t *testing.T) {
	tree(t, judgedTree)
	write(t, "ci/README", "the table's folder")
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
	got, sum := judged(t, &judge{targets: judgedTargets, contract: true, patience: patience})
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
	j := &judge{targets: judgedTargets, contract: true, until: time.Now(), patience: patience}
	if _, sum = judged(t, j); sum.String() != "8 mutants noticed, 1 not; 1 are as without" || sum.good() {
		t.Errorf("all are judged: %s, good: %t", sum, sum.good())
	}
	write(t, "b/b_test.go", judgedTree["b/b_test.go"]+"\nfunc TestMore(t *testing.T) { a.Unseen(1) }\n")
	if _, sum = judged(t, j); sum.killed != 4 || sum.unjudged != 6 || sum.older != 6 || !sum.idle() {
		t.Errorf("with other tests in b, of which it has no time for: %+v", sum)
	}
	if said := sum.String(); !strings.HasSuffix(said, "; 6 not judged, of these 6 but by older tests") {
		t.Errorf("it says: %s", said)
	}
	write(t, "b/b_test.go", strings.Replace(judgedTree["b/b_test.go"], "len(a.Up)", "!a.Unseen(1) || len(a.Up)", 1))
	j.until = time.Time{}
	want["Unseen:nothing:1"] = "killed later TestLate"
	if got, sum = judged(t, j); cmp.Diff(want, got) != "" || sum.killed != 9 || sum.good() || len(sum.faults) != 1 || !strings.HasPrefix(sum.faults[0], "noticed, but with a line") {
		t.Errorf("with a test more: %+v (-want +got):\n%s", sum, cmp.Diff(want, got))
	}
	write(t, reasonsFile, reasonsHead+"\na/a.go:Late:compare:1\tn > 9 -> n >= 9\tsame\t9 is 9\n")
	if _, sum = judged(t, j); !sum.good() || sum.idle() {
		t.Errorf("with the reason gone: %s", sum)
	}
}

// Tests that fail without a mutant say nothing of one.
func TestJudgeRefuses(t *testing.T) {
	tree(t, judgedTree)
	write(t, "ci/README", "the table's folder")
	j := &judge{targets: []target{{"a", nil, []stage{{name: "first", folder: "a", run: "."}}}}, chosen: regexp.MustCompile("."), patience: patience}
	write(t, "a/b_test.go", "package a\n\nimport \"testing\"\n\nfunc TestRed(t *testing.T) { t.Error(\"red\") }\n")
	if _, err := j.all(t.Context()); err == nil || !strings.Contains(err.Error(), "tests of a without a mutant: TestRed") {
		t.Errorf("it says: %v", err)
	}
	j.targets[0].stages[0].run = "^TestNone$"
	if _, err := j.all(t.Context()); err == nil || !strings.Contains(err.Error(), "none is called ^TestNone$") {
		t.Errorf("it says: %v", err)
	}
	j.chosen = regexp.MustCompile("typo")
	if _, err := j.all(t.Context()); err == nil || !strings.Contains(err.Error(), `"typo" matches none`) {
		t.Errorf("it says: %v", err)
	}
}

// Without the contract nothing is said of what only it can notice: neither where there is no verdict, nor
// in the place of one of its own.
func TestJudgeWithoutContract(t *testing.T) {
	tree(t, judgedTree)
	write(t, "a/a.go", strings.Replace(judgedTree["a/a.go"], "n > 0 {\n\t\tn--", "range n {", 1)) // without an endless one
	write(t, "ci/README", "the table's folder")
	want := map[string]string{"Loop:nothing:1": "killed first TestLoop", "Loop:without:1": "killed first TestLoop"}
	fast := &judge{targets: judgedTargets, patience: patience}
	got, sum := judged(t, fast)
	if diff := cmp.Diff(want, got); diff != "" || sum.unjudged != 6 || sum.older != 0 || sum.idle() {
		t.Errorf("at first: %+v, verdicts (-want +got):\n%s", sum, diff)
	}
	want, _ = judged(t, &judge{targets: judgedTargets, contract: true, patience: patience})
	write(t, "b/b_test.go", judgedTree["b/b_test.go"]+"\nfunc TestMore(t *testing.T) {}\n")
	got, sum = judged(t, fast)
	if diff := cmp.Diff(want, got); diff != "" || sum.unjudged != 4 || sum.older != 4 || len(sum.faults) != 2 {
		t.Errorf("when those of the contract are older: %+v, verdicts (-want +got):\n%s", sum, diff)
	}
	if _, sum = judged(t, fast); !sum.idle() {
		t.Errorf("once more: %+v", sum)
	}
}
