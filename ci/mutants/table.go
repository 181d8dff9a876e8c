package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	tableFile   = "ci/mutants.tsv"
	reasonsFile = "ci/survivors.tsv"
)

// row is what came of a mutant.
type row struct {
	Name, Change string
	Line         int
	Verdict      string
	By, Test     string // the stage that noticed it, and its first test that failed
	Hash         string // of what that was compiled from, or all stages of one that survived
}

// table are all rows, by name, in a file.
type table struct {
	path string
	rows map[string]*row
}

const tableHead = "mutant\tline\tchange\tverdict\tby\ttest\thash"

// lines are the fields of a file with a head; one that is not there has none.
func lines(path, head string) (out [][]string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if want := strings.Count(head, "\t") + 1; len(f) != want {
			return nil, fmt.Errorf("%s:%d: %d fields, want %d", path, n+1, len(f), want)
		}
		if n > 0 {
			out = append(out, f)
		} else if line != head {
			return nil, fmt.Errorf("%s:1: want %q", path, head)
		}
	}
	return out, nil
}

func readTable(path string) (*table, error) {
	t := &table{path, map[string]*row{}}
	all, err := lines(path, tableHead)
	for n, f := range all {
		r := &row{Name: f[0], Change: f[2], Verdict: f[3], By: f[4], Test: f[5], Hash: f[6]}
		if r.Line, err = strconv.Atoi(f[1]); err != nil {
			return nil, fmt.Errorf("read the verdicts so far: %s:%d: %w", path, n+2, err)
		}
		t.rows[r.Name] = r
	}
	if err != nil {
		return nil, fmt.Errorf("read the verdicts so far: %w", err)
	}
	return t, nil
}

// keep removes the rows of a folder whose mutants are no more.
func (t *table) keep(folder string, all []mutant) {
	names := map[string]bool{}
	for _, m := range all {
		names[m.Name] = true
	}
	maps.DeleteFunc(t.rows, func(name string, _ *row) bool {
		file, _, _ := strings.Cut(name, ":")
		return file[:strings.LastIndex(file, "/")] == folder && !names[name]
	})
}

// noticed is 0 for a mutant that survived when it was last judged, otherwise 1.
func (t *table) noticed(m mutant) int {
	if r := t.rows[m.Name]; r != nil && r.Verdict == survived {
		return 0
	}
	return 1
}

func (t *table) write() error {
	text := tableHead + "\n"
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		r := t.rows[name]
		text += strings.Join([]string{r.Name, strconv.Itoa(r.Line), r.Change, r.Verdict, r.By, r.Test, r.Hash}, "\t") + "\n"
	}
	if err := errors.Join(os.WriteFile(t.path+".new", []byte(text), 0o644), os.Rename(t.path+".new", t.path)); err != nil {
		return fmt.Errorf("write the verdicts: %w", err)
	}
	return nil
}

// Why a mutant survives.
const (
	same = "same" // as without: no outcome of Resolve and no packet changes
	open = "open" // something changes that no test looks at
)

// reason is why a mutant survives.
type reason struct{ Name, Change, Kind, Why string }

// reasons are by mutant.
type reasons struct{ rows map[string]reason }

const reasonsHead = "mutant\tchange\tkind\twhy"

func readReasons(path string) (*reasons, error) {
	out := &reasons{map[string]reason{}}
	all, err := lines(path, reasonsHead)
	for n, f := range all {
		r := reason{f[0], f[1], f[2], f[3]}
		if r.Kind != same && r.Kind != open || r.Why == "" {
			return nil, fmt.Errorf("read why mutants survive: %s:%d: want %s or %s, and why", path, n+2, same, open)
		}
		out.rows[r.Name] = r
	}
	if err != nil {
		return nil, fmt.Errorf("read why mutants survive: %w", err)
	}
	return out, nil
}

// of is the reason that a mutant survives.
func (r *reasons) of(m mutant) (reason, bool) {
	found, ok := r.rows[m.Name]
	return found, ok && found.Change == m.Change
}

// summary counts mutants.
type summary struct {
	killed, same, open int
	unjudged, older    int      // without a verdict that holds; those of them that tests of before have judged
	anew               int      // judged by this run
	faults             []string // of reasons: survivors without, and mutants that are noticed with one
}

func (s *summary) add(m mutant, r *row, why *reasons) {
	because, explained := why.of(m)
	switch {
	case r == nil:
		s.unjudged++
	case r.Verdict != survived:
		s.killed++
		if explained {
			s.faults = append(s.faults, fmt.Sprintf("noticed, but with a line in %s: %s: %s", reasonsFile, m.Name, m.Change))
		}
	case !explained:
		s.open++
		s.faults = append(s.faults, fmt.Sprintf("not noticed, and without a line in %s: %s: %s", reasonsFile, m.Name, m.Change))
	case because.Kind == same:
		s.same++
	default:
		s.open++
	}
}

// good tells whether those that survive have a reason, and no others, and few enough are open.
func (s summary) good() bool {
	return len(s.faults) == 0 && 100*s.killed >= 95*(s.killed+s.open)
}

// idle tells whether a run has come to no verdict though some were wanted: it says nothing.
func (s summary) idle() bool { return s.anew == 0 && s.unjudged > 0 }

func (s summary) String() string {
	var b strings.Builder
	for _, f := range s.faults {
		fmt.Fprintln(&b, f)
	}
	fmt.Fprintf(&b, "%d mutants noticed, %d not; %d are as without", s.killed, s.open, s.same)
	if s.unjudged > 0 {
		fmt.Fprintf(&b, "; %d not judged, of these %d but by older tests", s.unjudged, s.older)
	}
	return b.String()
}
