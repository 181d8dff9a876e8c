package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Form is how a run is printed for a terminal.
type Form struct {
	Wide  bool // all columns, and what they depend on
	Width int  // of the terminal; 0: lines may be as long as they are
}

// Table prints the run for a terminal: what it came to, a table of each scenario, and what
// happened to each row; or, wide, all that the report has.
func Table(w io.Writer, s Summary, form Form) error {
	var b bytes.Buffer
	if form.Wide {
		wide(&b, s)
	} else {
		narrow(&b, s, form.Width)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

func narrow(b *bytes.Buffer, s Summary, width int) {
	render.Wrap(b, conclusion(s), width, "")
	for _, sc := range s.Scenarios {
		b.WriteByte('\n')
		if alone(s) == nil {
			render.Wrap(b, render.Text(sc.Name)+render.Prefixed(": ", render.Text(sc.Title)), width, "")
		}
		rows := [][]string{{"VERDICT", "DATAPLANE", "LOST", "OF", "WINDOW", "CAUSE", "SLOW", "ROLLOUTS"}}
		for _, r := range sc.Rows {
			rows = append(rows, narrowCells(r, sc))
		}
		render.Table(b, render.Fit(rows, width), isNumber)
		for _, r := range sc.Rows {
			b.WriteByte('\n')
			render.Wrap(b, r.says(sc), width, "  ")
			if r.Sequence != "" {
				fmt.Fprintf(b, "\nas the client saw it:\n%s\n", render.Lines(r.Sequence))
			}
		}
	}
	if n := len(notesOf(s)); n > 0 {
		fmt.Fprintf(b, "\n%s more: -o wide, or the report\n", render.Plural(n, "note"))
	}
}

// notesOf are all notes of a run.
func notesOf(s Summary) []string {
	all := notes(s)
	if alone(s) == nil {
		for _, sc := range s.Scenarios {
			all = append(all, scenarioNotes(sc, s.LB)...)
		}
	}
	return all
}

func narrowCells(r Row, sc Scenario) []string {
	line := []string{string(r.Judge(sc)), render.Text(r.Name), "-", "-", "-", "-", "-", fmt.Sprintf("%d/%d", len(r.Rollouts), max(r.Wanted, len(r.Rollouts)))}
	if len(r.Rollouts) > 0 {
		copy(line[2:], []string{fmt.Sprint(r.Lost()), fmt.Sprint(r.Sent()), secs(r.LongestWindow()), r.cause(sc), fmt.Sprint(r.Slow())})
	}
	return line
}

func wide(b *bytes.Buffer, s Summary) {
	fmt.Fprintf(b, "%s\n\n", conclusion(s))
	printFacts(b, facts(s))
	if sc := alone(s); sc != nil {
		b.WriteByte('\n')
		printRows(b, *sc)
	} else {
		if rows := overview(s); len(rows) > 1 {
			b.WriteByte('\n')
			render.Table(b, rows, isNumber)
		}
		for _, sc := range s.Scenarios {
			b.WriteByte('\n')
			printFacts(b, scenarioFacts(sc))
			b.WriteByte('\n')
			printRows(b, sc)
			printNotes(b, scenarioNotes(sc, s.LB))
		}
	}
	printNotes(b, notes(s))
	b.WriteByte('\n')
	for _, line := range legend() {
		fmt.Fprintln(b, line)
	}
}

func printFacts(b *bytes.Buffer, facts []render.Fact) {
	for _, f := range facts {
		fmt.Fprintf(b, "%-10s %s\n", f.Name(), f.Text())
	}
}

func printRows(b *bytes.Buffer, sc Scenario) {
	render.Table(b, rowsOf(sc), isNumber)
	for _, r := range sc.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(b, "\n%s, as the client saw it:\n%s\n", render.Text(r.Name), render.Lines(r.Sequence))
		}
	}
}

func printNotes(b *bytes.Buffer, notes []string) {
	if len(notes) == 0 {
		return
	}
	b.WriteByte('\n')
	for _, line := range notes {
		fmt.Fprintf(b, "- %s\n", line)
	}
}

// rowsOf is the table of one scenario, below its headings.
func rowsOf(sc Scenario) [][]string {
	rows := [][]string{columns()}
	for _, r := range sc.Rows {
		rows = append(rows, cells(r, sc))
	}
	return rows
}

// overview is every dataplane by every scenario: its verdict, and what was lost of how many.
func overview(s Summary) [][]string {
	head := []string{"DATAPLANE"}
	var order []string
	line := map[string][]string{}
	for n, sc := range s.Scenarios {
		head = append(head, render.Text(sc.Name))
		for _, r := range sc.Rows {
			if line[r.Name] == nil {
				order = append(order, r.Name)
				line[r.Name] = append([]string{render.Text(r.Name)}, slices.Repeat([]string{"-"}, len(s.Scenarios))...)
			}
			cell := string(r.Judge(sc))
			if len(r.Rollouts) > 0 {
				cell += fmt.Sprintf(" %d/%d", r.Lost(), r.Sent())
			}
			line[r.Name][n+1] = cell
		}
	}
	rows := [][]string{head}
	for _, name := range order {
		rows = append(rows, line[name])
	}
	return rows
}

// isNumber says whether a column is one of numbers.
func isNumber(heading string) bool {
	return !slices.Contains([]string{"DATAPLANE", "VERDICT", "CLASSES", "CAUSE", "MODEL [99.9 %]"}, heading)
}
