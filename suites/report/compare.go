package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Pair is one row of two reports.
type Pair struct {
	Name string
	A, B *Row // nil: the report has no such row
	// Differs is empty if both measured the same, as far as the model tells what
	// chance allows.
	Differs []string
}

// windowSlack is by how much windows may differ beyond the load balancer's
// check interval, in seconds: arrivals are 10 ms apart, and states are polled.
const windowSlack = 0.3

// Compare holds two runs of one scenario against each other, row by row. Their
// settings must be the same, or no row agrees. What each lost must lie in the
// model's 99.9 % band for its rollouts, and the longest windows may differ by one
// check interval, which is the range of the phase.
func Compare(a, b Summary) []Pair {
	var out []Pair
	for i := range a.Rows {
		out = append(out, Pair{Name: a.Rows[i].Name, A: &a.Rows[i]})
	}
rows:
	for i := range b.Rows {
		for n := range out {
			if out[n].Name == b.Rows[i].Name {
				out[n].B = &b.Rows[i]
				continue rows
			}
		}
		out = append(out, Pair{Name: b.Rows[i].Name, B: &b.Rows[i]})
	}
	for i := range out {
		out[i].Differs = out[i].differences(a, b)
	}
	return out
}

func (p Pair) differences(a, b Summary) (out []string) {
	if p.A == nil || p.B == nil {
		return []string{"only one report has it"}
	}
	x, y := a.Settings, b.Settings
	x.Rollouts, y.Rollouts, x.Seed, y.Seed, x.Timeouts, y.Timeouts = 0, 0, 0, 0, "", ""
	if x != y || a.LB != b.LB {
		out = append(out, "the runs had other settings")
	}
	for _, r := range []*Row{p.A, p.B} {
		switch pr := r.Predicted; {
		case r.Unsupported != "":
			out = append(out, "unsupported: "+r.Unsupported)
		case pr == nil || len(r.Rollouts) == 0 || pr.Rollouts != len(r.Rollouts):
			out = append(out, "a run could not be judged")
		case float64(r.Lost()) < pr.Band999.Low || float64(r.Lost()) > pr.Band999.High:
			out = append(out, fmt.Sprintf("lost %d, outside %s-%s", r.Lost(), num(pr.Band999.Low), num(pr.Band999.High)))
		}
	}
	if d := math.Abs(p.A.LongestWindow() - p.B.LongestWindow()); d > a.LB.Interval.Seconds()+windowSlack {
		out = append(out, fmt.Sprintf("windows differ by %s", secs(d)))
	}
	return out
}

// CompareTable prints two runs side by side and says whether all rows agree.
func CompareTable(w io.Writer, a, b Summary) (agree bool, err error) {
	var out bytes.Buffer
	for _, s := range []Summary{a, b} {
		fmt.Fprintf(&out, "%-9s %s; %s\n", render.Text(s.Environment.Cluster), clusterText(s.Environment), lbText(s.LB))
	}
	out.WriteByte('\n')
	side := func(s Summary, what string) string { return render.Text(s.Environment.Cluster) + " " + what }
	rows := [][]string{{"DATAPLANE"}}
	for _, s := range []Summary{a, b} {
		rows[0] = append(rows[0], side(s, "LOST/SENT"), side(s, "MODEL [99.9 %]"), side(s, "WINDOW"), side(s, "CLASSES"))
	}
	rows[0] = append(rows[0], "VERDICT")
	agree = true
	for _, p := range Compare(a, b) {
		line := []string{render.Text(p.Name)}
		for _, r := range []*Row{p.A, p.B} {
			if r == nil {
				line = append(line, "-", "-", "-", "-")
				continue
			}
			line = append(line, fmt.Sprintf("%d/%d", r.Lost(), r.Sent()), modelCell(*r), secs(r.LongestWindow()), list(r.LostClasses()))
		}
		word := "agree"
		if len(p.Differs) > 0 {
			agree, word = false, "DIFFER: "+render.Text(strings.Join(p.Differs, "; "))
		}
		rows = append(rows, append(line, word))
	}
	render.Table(&out, rows, isNumber)
	if _, err := w.Write(out.Bytes()); err != nil {
		return agree, fmt.Errorf("print the comparison: %w", err)
	}
	return agree, nil
}
