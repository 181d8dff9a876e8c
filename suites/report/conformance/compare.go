package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Difference is a test that two reports do not say the same of.
type Difference struct {
	Test             // its place and words, of the first report that has it
	A, B      Result // empty: the report has no such test
	WhyA      string
	WhyB      string
	LevelDiff bool // the promise itself is not the same: its level changed
}

// Compare lists the tests whose results or levels differ, and those that only one
// report has, in the order of reports. Reasons, figures and times may differ.
func Compare(a, b Report) []Difference {
	a, b = Complete(a), Complete(b)
	both := map[string]*Difference{}
	for _, t := range a.Tests {
		both[t.Key()] = &Difference{Test: t, A: t.Result, WhyA: t.Reason}
	}
	for _, t := range b.Tests {
		d := both[t.Key()]
		if d == nil {
			both[t.Key()] = &Difference{Test: t, B: t.Result, WhyB: t.Reason}
			continue
		}
		d.B, d.WhyB, d.LevelDiff = t.Result, t.Reason, d.Level != t.Level
	}
	var out []Difference
	for _, d := range both {
		if d.A != d.B || d.LevelDiff {
			out = append(out, *d)
		}
	}
	slices.SortFunc(out, func(x, y Difference) int { return byPlace(x.Test, y.Test) })
	return out
}

// Comparison is how two reports differ, for programs.
type Comparison struct {
	Same    bool           `json:"same"`
	Tests   int            `json:"tests"` // that either of them has
	Runs    [2]ComparedRun `json:"runs"`
	Differs []ComparedTest `json:"differs"`
}

// ComparedRun is one of the two.
type ComparedRun struct {
	Implementation string     `json:"implementation"`
	Conclusion     Conclusion `json:"conclusion"`
	Why            string     `json:"why"`
	Date           time.Time  `json:"date"`
}

// ComparedTest is a test that the two do not say the same of.
type ComparedTest struct {
	ID       string `json:"id"`
	IPFamily string `json:"ipFamily,omitempty"`
	Profile  string `json:"profile"`
	Level    Level  `json:"level"`
	Promise  bool   `json:"levelDiffers,omitempty"` // the two do not state the same level
	A        Result `json:"a,omitempty"`            // left out: the report has no such test
	B        Result `json:"b,omitempty"`
	WhyA     string `json:"whyA,omitempty"`
	WhyB     string `json:"whyB,omitempty"`
}

// NewComparison holds two reports against each other.
func NewComparison(a, b Report) Comparison {
	a, b = Complete(a), Complete(b)
	c := Comparison{Tests: testsOf(a, b), Differs: []ComparedTest{}}
	for i, r := range []Report{a, b} {
		c.Runs[i] = ComparedRun{implementation(r.Implementation), r.Conclusion, r.Why, r.Date}
	}
	for _, d := range Compare(a, b) {
		c.Differs = append(c.Differs, ComparedTest{
			ID: d.ID, IPFamily: d.IPFamily, Profile: d.Profile, Level: d.Level, Promise: d.LevelDiff, A: d.A, B: d.B, WhyA: d.WhyA, WhyB: d.WhyB,
		})
	}
	c.Same = len(c.Differs) == 0
	return c
}

// testsOf is how many tests one of the reports at least has.
func testsOf(reports ...Report) int {
	keys := map[string]bool{}
	for _, r := range reports {
		for _, t := range r.Tests {
			keys[t.Key()] = true
		}
	}
	return len(keys)
}

// CompareTable prints how two reports differ and says whether they are the same.
func CompareTable(w io.Writer, a, b Report) (same bool, err error) {
	a, b = Complete(a), Complete(b)
	var out bytes.Buffer
	for i, r := range []Report{a, b} {
		fmt.Fprintf(&out, "%c  %s: %s, %s\n", 'A'+i, render.Line(implementation(r.Implementation)), r.Conclusion, render.Line(r.Why))
		for _, f := range facts(r) {
			if slices.Contains([]string{"run", "cluster", "host"}, f.Name()) {
				fmt.Fprintf(&out, "   %s: %s\n", f.Name(), f.Text())
			}
		}
	}
	out.WriteByte('\n')
	diff := Compare(a, b)
	if len(diff) == 0 {
		fmt.Fprintf(&out, "The same in all of %s.\n", render.Plural(len(a.Tests), "test"))
	} else {
		writeDifferences(&out, diff, a, b)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return false, fmt.Errorf("print the comparison: %w", err)
	}
	return len(diff) == 0, nil
}

// CompareAll prints one line that says whether reports have the same tests with the
// same results and levels, and under it the tests that they do not agree on.
func CompareAll(w io.Writer, reports []Report) (same bool, err error) {
	differing := map[string]Test{}
	keys := map[string]bool{}
	var seeds []string
	for _, r := range reports {
		r = Complete(r)
		for _, t := range r.Tests {
			keys[t.Key()] = true
		}
		for _, d := range Compare(reports[0], r) { // what two differ in, one of them differs in from the first
			differing[d.Key()] = d.Test
		}
		seeds = append(seeds, fmt.Sprint(r.Seed))
	}
	var out bytes.Buffer
	all := fmt.Sprintf("%s (seeds %s)", render.Plural(len(reports), "report"), strings.Join(seeds, ", "))
	if len(differing) == 0 {
		fmt.Fprintf(&out, "%s: identical in all of %s.\n", all, render.Plural(len(keys), "test"))
	} else {
		fmt.Fprintf(&out, "%s: %d of %s differ.\n\n", all, len(differing), render.Plural(len(keys), "test"))
		writeResults(&out, slices.SortedFunc(maps.Values(differing), byPlace), reports)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return false, fmt.Errorf("print the comparison: %w", err)
	}
	return len(differing) == 0, nil
}

// writeResults has a row per test and a column per report.
func writeResults(out *bytes.Buffer, tests []Test, reports []Report) {
	heading := []string{"TEST", "PROFILE"}
	columns := make([]map[string]string, len(reports))
	for i, r := range reports {
		heading = append(heading, fmt.Sprint(i+1))
		columns[i] = map[string]string{}
		for _, t := range Complete(r).Tests {
			columns[i][t.Key()] = fmt.Sprintf("%s (%s)", t.Result, t.Level)
		}
	}
	rows := [][]string{heading}
	for _, t := range tests {
		row := []string{render.Line(t.Key()), render.Line(t.Profile)}
		for _, c := range columns {
			row = append(row, cmp.Or(c[t.Key()], "-"))
		}
		rows = append(rows, row)
	}
	render.Table(out, rows, isNumber)
}

func writeDifferences(out *bytes.Buffer, diff []Difference, a, b Report) {
	rows := [][]string{{"TEST", "PROFILE", "LEVEL", "A", "B", "REASON"}}
	one := func(r Result) string {
		if r == "" {
			return "-"
		}
		return string(r)
	}
	for _, d := range diff {
		level := string(d.Level)
		if d.LevelDiff {
			level += " (differs)"
		}
		rows = append(rows, []string{
			render.Line(d.Key()), render.Line(d.Profile), level, one(d.A), one(d.B), render.Joined("; ", render.Prefixed("A: ", render.Line(d.WhyA)), render.Prefixed("B: ", render.Line(d.WhyB))),
		})
	}
	render.Table(out, rows, isNumber)
	fmt.Fprintf(out, "\n%d of %s differ.\n", len(diff), render.Plural(testsOf(a, b), "test"))
}
