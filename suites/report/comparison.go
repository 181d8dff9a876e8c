package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Comparison is what two runs are to each other, in every rendering.
type Comparison struct {
	Conclusion string         `json:"conclusion"`
	ExitCode   int            `json:"exitCode"` // 0: they agree, 1: they differ, 2: some rows could not be held against each other
	Error      float64        `json:"error"`    // chance that anything at all is called a difference among runs of one thing
	Tests      int            `json:"tests"`    // among which that is divided
	Runs       [2]ComparedRun `json:"runs"`
	Rows       []ComparedRow  `json:"rows"`
}

// ComparedRun is one of the two.
type ComparedRun struct {
	Name    string `json:"name"`
	Started string `json:"started,omitempty"`
	Cluster string `json:"cluster"`
	LB      string `json:"lb"`
}

// ComparedRow is a row of the two.
type ComparedRow struct {
	Name    string   `json:"name"`
	Word    string   `json:"word"` // agree, DIFFER or unjudged
	Says    string   `json:"says"` // in a sentence
	A       *Side    `json:"a"`    // null: the run has no such row
	B       *Side    `json:"b"`
	Differs []string `json:"differs"`
	Seen    []string `json:"seen"` // the smallest differences that would have been called ones
}

// Side is a row of one run.
type Side struct {
	Word   Word    `json:"word"`
	Lost   int     `json:"lost"`
	Sent   int     `json:"sent"`
	Slow   int     `json:"slow"`
	Window float64 `json:"window"` // s
	Cause  string  `json:"cause"`
}

// NewComparison holds two runs against each other, which go by these names.
func NewComparison(a, b Summary, names [2]string) Comparison {
	pairs := Compare(a, b)
	c := Comparison{Error: FamilyError, Tests: tests(pairs), Rows: []ComparedRow{}}
	for i, s := range []Summary{a, b} {
		c.Runs[i] = ComparedRun{Name: render.Text(names[i]), Cluster: clusterText(s.Environment), LB: lbText(s.LB)}
		if !s.Started.IsZero() {
			c.Runs[i].Started = s.Started.UTC().Format("2006-01-02 15:04:05Z")
		}
	}
	var differ, unjudged []string
	for _, p := range pairs {
		row := ComparedRow{Name: render.Text(p.Name), Word: "agree", A: sideOf(p.A, p.ofA), B: sideOf(p.B, p.ofB), Differs: append([]string{}, p.Differs...), Seen: append([]string{}, p.Seen...)}
		row.Says = row.Name + " is the same in both, as far as chance allows."
		if p.A != nil && p.A.Unsupported != "" {
			row.Says = row.Name + " was run in neither."
		}
		switch said := render.Text(strings.Join(p.Differs, "; ")); {
		case p.Unjudged:
			row.Word, row.Says = "unjudged", row.Name+" could not be compared: "+said+"."
			unjudged = append(unjudged, row.Name)
		case len(p.Differs) > 0:
			row.Word, row.Says = "DIFFER", fmt.Sprintf("%s in %s: %s.", p.change(), row.Name, said)
			differ = append(differ, row.Name)
		}
		c.Rows = append(c.Rows, row)
	}
	switch {
	case len(differ) > 0:
		c.ExitCode, c.Conclusion = 1, "DIFFER: "+enumerated(differ)
	case len(c.Rows) == 0:
		c.ExitCode, c.Conclusion = 2, "NOT JUDGED: neither run has a row"
	case len(unjudged) > 0:
		c.ExitCode, c.Conclusion = 2, "NOT JUDGED: "+enumerated(unjudged)
	default:
		c.Conclusion = "agree: " + render.Plural(len(c.Rows), "row")
	}
	return c
}

func sideOf(r *Row, sc *Scenario) *Side {
	if r == nil {
		return nil
	}
	return &Side{Word: r.Judge(*sc), Lost: r.Lost(), Sent: r.Sent(), Slow: r.Slow(), Window: r.LongestWindow(), Cause: r.cause(*sc)}
}

// change is what kind of difference it is: more or fewer lost of as many, or another.
func (p Pair) change() string {
	if !p.comparable() {
		return "Change"
	}
	part := func(r *Row) float64 { return float64(r.Lost()+r.lostInvalid()) / float64(max(1, r.Sent())) }
	a, b := part(p.A), part(p.B)
	lost := slices.ContainsFunc(p.Differs, func(d string) bool {
		return strings.HasPrefix(d, "one lost more than its budget") || strings.HasPrefix(d, "lost ") && !strings.HasPrefix(d, "lost as ") && !strings.HasPrefix(d, "lost for ")
	})
	switch {
	case lost && b > a:
		return "Regression"
	case lost && b < a:
		return "Improvement"
	}
	return "Change"
}

// cells are the table of both, below its headings.
func (c Comparison) cells() [][]string {
	rows := [][]string{{"A TO B", "DATAPLANE", "A LOST", "B LOST", "A WINDOW", "B WINDOW", "A CAUSE", "B CAUSE", "A SLOW", "B SLOW"}}
	for _, r := range c.Rows {
		line := []string{r.Word, r.Name}
		a, b := r.A.cells(), r.B.cells()
		for i := range a {
			line = append(line, a[i], b[i])
		}
		rows = append(rows, line)
	}
	return rows
}

func (s *Side) cells() []string {
	if s == nil || s.Sent == 0 {
		return []string{"-", "-", "-", "-"}
	}
	return []string{fmt.Sprintf("%d/%d", s.Lost, s.Sent), secs(s.Window), s.Cause, fmt.Sprint(s.Slow)}
}

// foot says how it was judged.
func (c Comparison) foot() []string {
	out := []string{fmt.Sprintf("An error of %g %% for all that is compared, %s in %s. The smallest differences that would have been called ones:",
		c.Error*100, render.Plural(c.Tests, "test"), render.Plural(len(c.Rows), "row"))}
	for _, r := range c.Rows {
		if len(r.Seen) > 0 {
			out = append(out, r.Name+": "+strings.Join(r.Seen, "; "))
		}
	}
	return out
}

// Table prints it for a terminal.
func (c Comparison) Table(w io.Writer, form Form) error {
	var b bytes.Buffer
	render.Wrap(&b, c.Conclusion, form.Width, "")
	b.WriteByte('\n')
	for i, r := range c.Runs {
		render.Wrap(&b, fmt.Sprintf("%c  %s", 'A'+i, render.Joined(", ", r.Name, r.Started, r.Cluster)), form.Width, "   ")
		if form.Wide {
			fmt.Fprintf(&b, "   %s\n", r.LB)
		}
	}
	b.WriteByte('\n')
	rows := c.cells()
	if !form.Wide {
		rows = render.Fit(rows, form.Width)
	}
	render.Table(&b, rows, func(heading string) bool {
		return !slices.Contains([]string{"A TO B", "DATAPLANE", "A CAUSE", "B CAUSE"}, heading)
	})
	for _, r := range c.Rows {
		if r.Word != "agree" {
			b.WriteByte('\n')
			render.Wrap(&b, r.Says, form.Width, "  ")
		}
	}
	b.WriteByte('\n')
	for i, line := range c.foot() {
		if i > 0 {
			line = "- " + line
		}
		render.Wrap(&b, line, form.Width, "  ")
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	return nil
}

// Markdown is for a pull request.
func (c Comparison) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "**%s**\n\n", render.Markdown(c.Conclusion))
	var runs []string
	for i, r := range c.Runs {
		runs = append(runs, fmt.Sprintf("%c: %s", 'A'+i, render.Joined(", ", r.Name, r.Started, r.Cluster, r.LB)))
	}
	render.MarkdownList(&b, runs)
	b.WriteByte('\n')
	render.MarkdownTable(&b, c.cells())
	b.WriteByte('\n')
	var says []string
	for _, r := range c.Rows {
		if r.Word != "agree" {
			says = append(says, r.Says)
		}
	}
	render.MarkdownList(&b, append(says, c.foot()...))
	return b.Bytes()
}

//go:embed comparison.html.tmpl
var comparisonPage string // const: embedding needs a variable

// HTML is a page of both, side by side.
func (c Comparison) HTML() ([]byte, error) {
	return render.Page("comparison", comparisonPage, struct {
		Comparison
		Style template.CSS
		Look  string
		Cells [][]string
		Foot  []string
	}{c, template.CSS(render.Style), []string{"pass", "fail", "unknown"}[c.ExitCode], c.cells(), c.foot()})
}
