package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Table prints the run for a terminal: what it depends on, a table of each scenario, notes.
func Table(w io.Writer, s Summary) error {
	var b bytes.Buffer
	printFacts(&b, facts(s))
	if sc := alone(s); sc != nil {
		b.WriteByte('\n')
		printRows(&b, *sc)
	} else {
		if rows := overview(s); len(rows) > 1 {
			b.WriteByte('\n')
			render.Table(&b, rows, isNumber)
		}
		for _, sc := range s.Scenarios {
			b.WriteByte('\n')
			printFacts(&b, scenarioFacts(sc))
			b.WriteByte('\n')
			printRows(&b, sc)
			printNotes(&b, scenarioNotes(sc, s.LB))
		}
	}
	printNotes(&b, notes(s))
	b.WriteByte('\n')
	for _, line := range legend() {
		fmt.Fprintln(&b, line)
	}
	_, err := w.Write(b.Bytes())
	if err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
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
	return !slices.Contains([]string{"DATAPLANE", "VERDICT", "CLASSES", "MODEL [99.9 %]"}, heading)
}
