package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// Pair is one row of two reports.
type Pair struct {
	Name string // of the row, behind that of its scenario where a report has several
	A, B *Row   // nil: the report has no such row
	// of are the scenarios that the rows are of.
	ofA, ofB *Scenario
	// Differs is empty if both measured the same, as far as chance allows.
	Differs []string
	// Unjudged is why they could not be held against each other, of which Differs has no more than that.
	Unjudged bool
	// Seen are the smallest differences that would have been called ones.
	Seen []string
}

// windowSlack is by how much windows may differ beyond the load balancer's
// check interval, in seconds: arrivals are 10 ms apart, and states are polled.
const windowSlack = 0.3

// Compare holds two runs against each other, row by row of each scenario. Their settings must
// be the same, and a row that loses nothing must do so in both. Then the difference of the two
// is judged itself: losses and slow answers in all, by class and by cause, latencies, and how many
// rollouts did not count, at an error of FamilyError for all that is compared (difference.go).
// Where there is a model the longest windows may differ by one check interval, which is the
// range of the phase.
func Compare(a, b Summary) []Pair {
	pairs := pairsOf(a, b)
	judgePairs(pairs, a, b, newChance(pairs))
	return pairs
}

func pairsOf(a, b Summary) []Pair {
	var out []Pair
	several := len(a.Scenarios) > 1 || len(b.Scenarios) > 1
	at := func(sc *Scenario, row *Row) *Pair {
		for n := range out {
			p := &out[n]
			if p.ofA != nil && p.ofA.Name == sc.Name && p.A.Name == row.Name && p.B == nil {
				return p
			}
		}
		p := Pair{Name: row.Name}
		if several {
			p.Name = sc.Name + ", " + row.Name
		}
		out = append(out, p)
		return &out[len(out)-1]
	}
	for i := range a.Scenarios {
		sc := &a.Scenarios[i]
		for n := range sc.Rows {
			p := at(sc, &sc.Rows[n])
			p.A, p.ofA = &sc.Rows[n], sc
		}
	}
	for i := range b.Scenarios {
		sc := &b.Scenarios[i]
		for n := range sc.Rows {
			p := at(sc, &sc.Rows[n])
			p.B, p.ofB = &sc.Rows[n], sc
		}
	}
	return out
}

// tests is how many the pairs take.
func tests(pairs []Pair) int {
	n := 0
	for _, p := range pairs {
		if p.comparable() {
			n += len(figures(*p.A, *p.B)) + 1 // and the rollouts that did not count
		}
	}
	return n
}

// comparable: there are rollouts on both sides.
func (p Pair) comparable() bool {
	return p.A != nil && p.B != nil && len(p.A.Rollouts) > 0 && len(p.B.Rollouts) > 0
}

func judgePairs(pairs []Pair, a, b Summary, c chance) {
	for i := range pairs {
		p := &pairs[i]
		p.Differs, p.Seen = p.differences(a, b, c)
		p.Unjudged = p.A != nil && p.B != nil && len(p.Differs) > 0 && (!p.comparable() || p.A.Unsupported+p.B.Unsupported != "")
	}
}

func (p Pair) differences(a, b Summary, c chance) (out, seen []string) {
	if p.A == nil || p.B == nil {
		return []string{"only one report has it"}, nil
	}
	x, y := p.ofA.Settings, p.ofB.Settings
	x.Rollouts, y.Rollouts, x.Seed, y.Seed, x.Timeouts, y.Timeouts = 0, 0, 0, 0, "", ""
	if x != y || a.LB != b.LB {
		out = append(out, "the runs had other settings")
	}
	if p.A.Unsupported != "" && p.B.Unsupported != "" {
		return out, nil // run in neither
	}
	for i, r := range []*Row{p.A, p.B} {
		if r.Unsupported != "" {
			out = append(out, fmt.Sprintf("%c: unsupported: %s", 'A'+i, r.Unsupported))
		} else if len(r.Rollouts) == 0 {
			out = append(out, fmt.Sprintf("%c could not be judged", 'A'+i))
		}
	}
	if !p.comparable() {
		return out, nil
	}
	if p.A.promise(*p.ofA) != nil && p.B.promise(*p.ofB) != nil && p.A.lostBeyond(*p.ofA) != p.B.lostBeyond(*p.ofB) {
		out = append(out, fmt.Sprintf("one lost more than its budget: %d, then %d", p.A.counted(), p.B.counted()))
	}
	for _, f := range figures(*p.A, *p.B) {
		t := c.compareFigure(f, *p.A, *p.B)
		if t.differs() {
			out = append(out, t.String())
		}
		if f.name == "lost" || f.name == "slow" || f.spread == measured {
			seen = append(seen, t.seen())
		}
	}
	if fewerCount(*p.A, *p.B) < c.alpha {
		out = append(out, "other parts of the rollouts did not count")
	}
	if d := math.Abs(longestLoss(*p.A) - longestLoss(*p.B)); p.A.Predicted != nil && p.B.Predicted != nil && d > a.LB.Interval.Seconds()+windowSlack {
		out = append(out, fmt.Sprintf("windows differ by %s", secs(d)))
	}
	return out, seen
}

// longestLoss is the longest window of a row in which anything was lost.
func longestLoss(r Row) float64 {
	return r.longest(func(v verdict.Rollout) float64 {
		most := 0.0
		for _, w := range v.NodeWindows {
			if w.Lost > 0 {
				most = max(most, w.Inner())
			}
		}
		return most
	})
}

// String says how two runs differ.
func (t test) String() string {
	if t.unit == timesUnit {
		return fmt.Sprintf("%s %s ms, then %s ms", t.name, num(1e3*math.Exp(t.a)), num(1e3*math.Exp(t.b)))
	}
	return fmt.Sprintf("%s %s, then %s per rollout", t.name, num(t.a), num(t.b))
}

// seen is the smallest difference of a figure that would have been called one.
func (t test) seen() string {
	switch {
	case math.IsInf(t.least, 1):
		return t.name + ": none, of one rollout"
	case t.unit == timesUnit:
		return fmt.Sprintf("%s: %s times", t.name, num(math.Exp(t.least)))
	}
	return fmt.Sprintf("%s: %s per rollout", t.name, num(t.least))
}

// CompareAll holds every two of many runs against each other, at one error for all of them,
// and names those that differ: 1; 2: none does, and some could not be held against each other.
func CompareAll(w io.Writer, all []Summary, names []string) (code int, err error) {
	type two struct {
		a, b  int
		pairs []Pair
	}
	var list []two
	var every []Pair
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			p := pairsOf(all[i], all[j])
			list, every = append(list, two{i, j, p}), append(every, p...)
		}
	}
	c := newChance(every)
	var out bytes.Buffer
	differ, unjudged := 0, 0
	for _, t := range list {
		judgePairs(t.pairs, all[t.a], all[t.b], c)
		var said []string
		for _, p := range t.pairs {
			if p.Unjudged {
				unjudged++
				fmt.Fprintf(&out, "%s and %s could not be compared: %s: %s\n", render.Text(names[t.a]), render.Text(names[t.b]), render.Text(p.Name), render.Text(strings.Join(p.Differs, "; ")))
			} else if len(p.Differs) > 0 {
				said = append(said, render.Text(p.Name)+": "+render.Text(strings.Join(p.Differs, "; ")))
			}
		}
		if len(said) > 0 {
			differ++
			fmt.Fprintf(&out, "%s and %s DIFFER: %s\n", render.Text(names[t.a]), render.Text(names[t.b]), strings.Join(said, " | "))
		}
	}
	fmt.Fprintf(&out, "%d of %s of reports differ, at an error of %g %% for all of them (%s)\n", differ, render.Plural(len(list), "pair"), FamilyError*100, render.Plural(tests(every), "test"))
	for _, p := range list[len(list)-1].pairs {
		if len(p.Seen) > 0 {
			fmt.Fprintf(&out, "- %s: smallest differences that would have been called ones, of the last two: %s\n", render.Text(p.Name), strings.Join(p.Seen, "; "))
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return 0, fmt.Errorf("print the comparison: %w", err)
	}
	switch {
	case differ > 0:
		return 1, nil
	case unjudged > 0:
		return 2, nil
	}
	return 0, nil
}
