package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/render"
)

func TestRead(t *testing.T) {
	dir := written(t)
	for _, path := range []string{dir, filepath.Join(dir, JSONFile), filepath.Join(dir, YAMLFile)} {
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Complete(sample()), got); d != "" {
			t.Errorf("%s does not hold the report (-want +got):\n%s", path, d)
		}
	}
	if err := os.Remove(filepath.Join(dir, JSONFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("a folder with %s alone: %v", YAMLFile, err)
	}
}

// TestReadRefusesOthers: and says what it was given instead.
func TestReadRefusesOthers(t *testing.T) {
	for name, tc := range map[string]struct{ text, kind, want string }{
		"other version": {`{"apiVersion":"conformance.plumbline.io/v2","kind":"ServiceConformanceReport"}`, Kind, `of version "conformance.plumbline.io/v2"`},
		"other kind":    {`{"apiVersion":"conformance.plumbline.io/v1alpha1","kind":"List"}`, "List", `it is a "List"`},
		"disruption":    {`{"apiVersion":"plumbline.io/v1alpha1","kind":"DisruptionReport","rows":[]}`, report.Kind, `it is a "DisruptionReport"`},
		"pod":           {"apiVersion: v1\nkind: Pod\n", "Pod", `it is a "Pod"`},
		"no kind":       {`{}`, "", "names no kind"},
		"a list":        {`[1]`, "", "cannot unmarshal"},
		"no YAML":       {"a: [", "", "yaml"},
		"bad duration":  {`{"apiVersion":"` + APIVersion + `","kind":"` + Kind + `","duration":"long"}`, Kind, "read a duration"},
	} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, kind, err := ReadKind(path); kind != tc.kind || (err == nil) != (tc.kind != "") {
			t.Errorf("%s: kind %q, %v; want %q", name, kind, err, tc.kind)
		}
	}
	for name, path := range map[string]string{"no file": filepath.Join(t.TempDir(), "x"), "empty folder": t.TempDir()} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKindsApart: the folder of either report says which it is.
func TestKindsApart(t *testing.T) {
	dir := t.TempDir()
	if err := report.Write(dir, report.Summary{}); err != nil {
		t.Fatal(err)
	}
	if version, kind, err := ReadKind(dir); version != report.APIVersion || kind != report.Kind || err != nil {
		t.Errorf("disruption: %s %s, %v", version, kind, err)
	}
	if version, kind, err := ReadKind(written(t)); version != APIVersion || kind != Kind || err != nil {
		t.Errorf("conformance: %s %s, %v", version, kind, err)
	}
}

// TestEvidenceStaysInside: only regular files within the folder are read.
func TestEvidenceStaysInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	evidence(t, dir)
	if err := os.Symlink("../outside.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for path, want := range map[string]string{
		"ruleset.txt": "", "../outside.txt": "escapes", "link": "escapes", "/etc/passwd": "escapes", "pipe": "no regular file",
		"terminating-fallback": "no regular file", "": "empty path", "gone": "no such file",
	} {
		head, _, err := evidenceIn(root)(path, 100)
		if want == "" && (err != nil || string(head) != "no rule\n") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", path, head, err, want)
		}
	}
	if head, size, err := evidenceIn(root)("ruleset.txt", 3); string(head) != "no " || size != 8 || err != nil {
		t.Errorf("cut: %q of %d, %v", head, size, err)
	}
}

func TestQuota(t *testing.T) {
	long := strings.Repeat("ä", 100) // 200 bytes
	read := func(path string, limit int) ([]byte, int64, error) {
		switch path {
		case "long":
			return []byte(long)[:min(len(long), limit)], 200, nil
		case "binary":
			return []byte{0xff, 0xfe, 'a', 'b', 'c', 'd'}, 6, nil
		case "capture":
			return bytes.Repeat([]byte{0xff}, min(200<<10, limit)), 200 << 10, nil
		case "zero":
			return []byte("a\x00b"), 3, nil
		case "empty":
			return nil, 0, nil
		}
		return nil, 0, errors.New("no\nway")
	}
	q := &quoter{read: read, quota: quota{text: 61, data: 9, all: 100}}
	got := q.excerpts(Test{Evidence: []string{"capture", "binary", "zero", "gone", "empty", "long", "long", "long", "a\x1bb"}})
	want := []excerpt{
		{Path: "capture", Note: "204800 bytes, not text"},
		{Path: "binary", Note: "6 bytes, not text", Data: []byte{0xff, 0xfe, 'a', 'b', 'c', 'd'}},
		{Path: "zero", Note: "3 bytes, not text", Data: []byte("a\x00b")},
		{Path: "gone", Note: "cannot be read: no; way"},
		{Path: "empty"},
		{Path: "long", Note: "the first 61 of 200 bytes", Text: strings.Repeat("ä", 30)},
		{Path: "long", Note: "the first 27 of 200 bytes", Text: strings.Repeat("ä", 13)},
		{Path: "long", Note: "not quoted here: there is too much evidence for one page"},
		{Path: "a b", Note: "not quoted here: there is too much evidence for one page"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	alone := &quoter{read: read, quota: quota{text: 61, all: 100}}
	if got := alone.excerpts(Test{Evidence: []string{"capture", "binary", "zero"}}); got[1].Note != "6 bytes, not text" || got[1].Data != nil || alone.all != 100 {
		t.Errorf("where text alone is shown: %+v, %d left", got, alone.all)
	}
	onPage := &quoter{read: read, quota: pageQuota}
	if got := onPage.excerpts(Test{Evidence: []string{"capture"}}); len(got[0].Data) != 200<<10 || onPage.all != pageQuota.all-(200<<10+2)/3*4 {
		t.Errorf("a capture on the page: %d bytes, %d left", len(got[0].Data), onPage.all)
	}
	if got := (&quoter{quota: pageQuota}).excerpts(Test{Evidence: []string{"x"}}); got[0].Note != "not quoted here" {
		t.Errorf("nothing to read with: %+v", got)
	}
}

// Each of several tests has its share, as it stands on a page, and what one leaves the others have.
func TestQuotaIsShared(t *testing.T) {
	read := func(path string, limit int) ([]byte, int64, error) {
		text := strings.Repeat("<", 30)
		if path == "none" {
			text = ""
		}
		return []byte(text)[:min(len(text), limit)], int64(len(text)), nil
	}
	q := &quoter{read: read, quota: quota{text: 100, all: 60}, tests: 3}
	for i, want := range []int{0, 6, 6} {
		got := q.excerpts(Test{Evidence: []string{map[bool]string{true: "none", false: "long"}[i == 0]}})
		if len(got[0].Text) != want {
			t.Errorf("test %d: %d of 30 signs, want %d", i, len(got[0].Text), want)
		}
	}
}

// A report of sixty failures, each with as much evidence and as many steps as the suite keeps, can be
// sent and opened: its page is below 5 MB, and each failure has its steps and some evidence there.
func TestManyFailures(t *testing.T) {
	r := sample()
	failed := r.Tests[0]
	failed.Steps = nil
	for range 40 {
		failed.Steps = append(failed.Steps, Step{Did: strings.Repeat("made <it> ", 20), Came: strings.Repeat("\"why\" ", 50), Wrong: true})
	}
	failed.Evidence = []string{"attempts.txt", "by-hand.sh", "node-1-frontend.txt", "node-1.pcap", "node-1-nft.txt"}
	r.Tests = nil
	for i := range 226 {
		failed.ID, failed.Result = fmt.Sprint("behaviour-", i), Pass
		if i < 60 {
			failed.Result = Fail
		}
		r.Tests = append(r.Tests, failed)
	}
	sign := map[bool]byte{true: 0xff, false: '"'}
	read := func(path string, limit int) ([]byte, int64, error) {
		return bytes.Repeat([]byte{sign[path == "node-1.pcap"]}, min(limit, 256<<10)), 256 << 10, nil
	}
	b, err := html(Complete(r), read)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if len(page) > 5e6 || strings.Count(page, "What was done: 40 steps") != 60 || strings.Count(page, "<summary>attempts.txt <span class=\"dim\">(the first ") != 60 {
		t.Errorf("%d bytes, %d lists of steps, %d excerpts", len(page), strings.Count(page, "What was done: 40 steps"), strings.Count(page, "<summary>attempts.txt <span class=\"dim\">(the first "))
	}
	for i := range r.Tests {
		r.Tests[i].Result = Fail
	}
	r = Complete(r)
	if b, err = html(r, read); err != nil || len(b) > 6e6 {
		t.Errorf("where all fail: %d bytes of page, %v", len(b), err)
	}
	if b, err = junit(r, read); err != nil || len(b) > 3e6 {
		t.Errorf("where all fail: %d bytes of JUnit, %v", len(b), err)
	}
	if b = markdown(r); len(b) > 1<<20 || strings.Count(string(b), "steps before these: see report.json") != 226 {
		t.Errorf("where all fail: %d bytes of Markdown, which say %d times that there are more steps", len(b), strings.Count(string(b), "steps before these: see report.json"))
	}
}

// The last steps are shown that there is room for, and each test has its share of it.
func TestStepsAreShared(t *testing.T) {
	step := Step{Did: strings.Repeat("d", 10), Came: "<<"}
	cost := stepCost(step)
	q := &quoter{quota: quota{steps: 6 * cost}, tests: 3}
	for i, c := range []struct{ steps, shown int }{{1, 1}, {9, 2}, {9, 3}} {
		var test Test
		for n := range c.steps {
			step.At = Duration(n)
			test.Steps = append(test.Steps, step)
		}
		shown, before, _ := q.next(test)
		if len(shown) != c.shown || before != c.steps-c.shown || int(shown[len(shown)-1].At) != c.steps-1 {
			t.Errorf("test %d: %d shown after %d", i, len(shown), before)
		}
	}
	for want, got := range map[string]string{"": earlier(0, nil), "2 steps: see report.json": earlier(2, nil), "1 step before these: see report.json": earlier(1, []Step{{}})} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestJUnitRed: a case is red where it decides the exit code, and a run that was
// not judged has something red in it.
func TestJUnitRed(t *testing.T) {
	test := func(l Level, r Result) Test {
		return Test{ID: string(l) + string(r), Profile: "Core", Level: l, Result: r, Reason: "because", Features: []string{"f"}}
	}
	undeclared := test(Must, Fail)
	undeclared.Features = []string{"nobody declared it"}
	for _, tc := range []struct {
		name                       string
		tests                      []Test
		runError                   string
		failures, errored, skipped int
		run                        string // message of the case "run"
	}{
		{"all good", []Test{test(Must, Pass)}, "", 0, 0, 0, ""},
		{"a MUST failed", []Test{test(Must, Pass), test(Must, Fail)}, "", 1, 0, 0, ""},
		{"a SHOULD failed", []Test{test(Must, Pass), test(Should, Fail)}, "", 0, 0, 1, ""},
		{"a MUST inconclusive", []Test{test(Must, Pass), test(Must, Inconclusive)}, "", 0, 1, 0, ""},
		{"a MAY inconclusive", []Test{test(Must, Pass), test(May, Inconclusive)}, "", 0, 0, 1, ""},
		{"unsupported", []Test{test(Must, Pass), test(Must, Unsupported)}, "", 0, 0, 1, ""},
		{"a MUST skipped", []Test{test(Must, Pass), test(Must, Skip)}, "", 0, 0, 2, ""}, // that, and that the run is partial
		{"a MUST that binds nobody failed", []Test{test(Must, Pass), undeclared}, "", 0, 0, 2, ""},
		{"ended early", []Test{test(Must, Pass)}, "inter\nrupted", 0, 1, 0, "the run ended early: inter; rupted"},
		{"nothing", nil, "", 0, 1, 0, "no MUST was run"},
	} {
		r := Complete(all(Report{Tests: tc.tests, Error: tc.runError, Features: []Feature{{"f", FeatureUnsupported, "r"}, {Name: "nobody declared it", State: FeatureUnknown}}}))
		b, err := junit(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got render.Suite
		if err := xml.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		run := ""
		for _, c := range got.Cases {
			if c.Name == "run" && c.Error != nil {
				run = c.Error.Message
			}
			for _, p := range []*render.Problem{c.Failure, c.Error, c.Skipped} {
				if p != nil && c.Name != "run" && !strings.Contains(p.Message, "because") {
					t.Errorf("%s: %s says %q", tc.name, c.Name, p.Message)
				}
			}
		}
		if got.Failures != tc.failures || got.Errors != tc.errored || got.Skipped != tc.skipped || run != tc.run || got.Tests != len(got.Cases) {
			t.Errorf("%s: %d failures, %d errors, %d skipped, run %q", tc.name, got.Failures, got.Errors, got.Skipped, run)
		}
		if red := got.Failures+got.Errors > 0; red != (r.ExitCode != 0) {
			t.Errorf("%s: red %v, exit code %d", tc.name, red, r.ExitCode)
		}
	}
}

// TestWriteDone: the archive is whole when the done file names it.
func TestWriteDone(t *testing.T) {
	dir, results := written(t), t.TempDir()
	if err := WriteDone(results, dir); err != nil {
		t.Fatal(err)
	}
	done, err := os.ReadFile(filepath.Join(results, "done"))
	if err != nil {
		t.Fatal(err)
	}
	// What Sonobuoy's worker does with it: opens it by the name as it stands, and
	// takes what follows the first dot for its kind.
	if _, kind, _ := strings.Cut(string(done), "."); kind != "tar.gz" {
		t.Errorf("done %q is no archive to the worker", done)
	}
	f, err := os.Open(string(done))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(plain, make([]byte, 1024)) {
		t.Error("the archive has no end: two empty blocks")
	}
	var names []string
	for archive := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			names = append(names, h.Name)
		}
	}
	want := []string{"junit.xml", "report.html", "report.json", "report.md", "report.yaml", "ruleset.txt", "terminating-fallback/failing.pcap", "terminating-fallback/ruleset.txt"}
	slices.Sort(names)
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("archive (-want +got):\n%s", d)
	}
}

func TestWriteDoneRefuses(t *testing.T) {
	dir := written(t)
	dotted := filepath.Join(t.TempDir(), "a.b")
	for _, d := range []string{dotted, filepath.Join(dir, "below")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct{ results, dir, want string }{
		"in itself":  {dir, dir, "to be packed"},
		"below it":   {filepath.Join(dir, "below"), dir, "to be packed"},
		"dot":        {dotted, dir, "has a dot"},
		"no results": {filepath.Join(t.TempDir(), "none"), dir, "no such file"},
		"no report":  {t.TempDir(), filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		if err := WriteDone(tc.results, tc.dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, err := os.Stat(filepath.Join(tc.results, "done")); err == nil {
			t.Errorf("%s: there is a done file", name)
		}
	}
}
