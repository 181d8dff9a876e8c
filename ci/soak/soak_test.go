package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/ci/compiled"
	"github.com/plumbline/plumbline/fixtures/need"
)

// tree is a module of two packages in a folder of its own, and the working directory:
// one test fails at its second run, one depends on real time, one never runs.
func tree(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module "+compiled.Module+"\n\ngo 1.26\n")
	write(t, "go.sum", "")
	write(t, "ci/realtime.txt", "a TestReal\n")
	write(t, "a/a.go", "package a\n\nimport _ \""+compiled.Module+"/b\"\n")
	write(t, "b/b.go", "package b\n")
	write(t, "a/testdata/x", "x")
	write(t, "a/a_test.go", `package a

import (
	"os"
	"testing"
)

func TestReal(t *testing.T) {}

func TestSkipped(t *testing.T) { t.Skip() }

func TestOnce(t *testing.T) {
	f, _ := os.OpenFile("../runs", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.WriteString("x")
	if s, _ := f.Stat(); s.Size() == 2 {
		t.Error("the second time")
	}
}
`)
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x"}} {
		runGit(t, args...)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func runGit(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s", args, err, out)
	}
}

// results are the runs, failures and skips by test.
func results(t *testing.T, rounds int) map[string][3]int {
	t.Helper()
	s := soak{packages: regexp.MustCompile("."), rounds: rounds, beside: 2}
	if err := s.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := map[string][3]int{}
	for _, r := range s.table.rows {
		out[r.Folder+" "+r.Test] = [3]int{r.Runs, r.Failed, r.Skipped}
	}
	return out
}

func TestSoak(t *testing.T) {
	tree(t)
	want := map[string][3]int{"a TestReal": {4, 0, 0}, "a TestOnce": {3, 1, 0}, "a TestSkipped": {3, 0, 3}}
	if diff := cmp.Diff(want, results(t, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	logs, err := filepath.Glob("results/soak/a.TestOnce.*.2.log")
	if err != nil || len(logs) != 1 {
		t.Errorf("logs of the failure: %q, %v", logs, err)
	}
	// It goes on where it stopped, with what was compiled from the same.
	want["a TestReal"] = [3]int{6, 0, 0}
	if diff := cmp.Diff(want, results(t, 6)); diff != "" {
		t.Errorf("goes on (-want +got):\n%s", diff)
	}
	for _, changed := range []string{"b/b.go", "a/testdata/x", "go.sum"} {
		text, err := os.ReadFile(changed)
		if err != nil {
			t.Fatal(err)
		}
		write(t, changed, string(text)+"\n")
		want["a TestOnce"] = [3]int{3, 0, 0}
		if diff := cmp.Diff(want, results(t, 6)); diff != "" {
			t.Errorf("after a change of %s (-want +got):\n%s", changed, diff)
		}
	}
	text, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}

func TestTableRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "soak.tsv")
	write(t, path, head+"\na\tTestX\thash\tmany\t0\t0\tc\n")
	if _, err := read(path); err == nil || !strings.Contains(err.Error(), "soak.tsv:2: ") {
		t.Errorf("it says: %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == hogWord {
		os.Exit(hog(os.Stdin, os.Stdout, os.Args[2]))
	}
	os.Exit(m.Run())
}

// The busy loops are as many as there are processors, use time, and end when they are
// told to.
func TestHog(t *testing.T) {
	h, err := startHog(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for busy := 0; busy < runtime.NumCPU(); time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.cmd.Process.Pid))
		if err != nil || t.Context().Err() != nil || len(stats) == 0 {
			t.Fatalf("%d threads, %v", len(stats), err)
		}
		busy = 0
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if f := strings.Fields(string(text)); err == nil && len(f) > 13 && f[13] != "0" { // utime, in ticks
				busy++
			}
		}
	}
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// A host that is to stand still does, by a thread on each of its processors that comes
// before all others.
func TestHalts(t *testing.T) {
	need.Root(t)
	list, err := processors()
	if err != nil {
		t.Fatal(err)
	}
	may := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		may <- take(list[0])
	}()
	need.That(t, <-may == nil, "real-time priority")
	const halt = 200 * time.Millisecond
	h, err := startHog(t.Context(), halt)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", h.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for _, path := range tasks {
		tid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		if attr, err := unix.SchedGetAttr(tid, 0); err == nil && attr.Policy == unix.SCHED_FIFO {
			first++
		}
	}
	if first != len(list) {
		t.Errorf("%d threads come first, of %d processors", first, len(list))
	}
	begun := time.Now()
	for last, halts := begun, 0; halts < 2; {
		time.Sleep(time.Millisecond)
		now := time.Now()
		if now.Sub(last) > halt*9/10 {
			halts++
		}
		if last = now; last.Sub(begun) > 30*haltPeriod {
			t.Fatalf("%d halts of %v in %v", halts, halt, last.Sub(begun))
		}
	}
	if err := h.end(); err != nil {
		t.Error(err)
	}
}
