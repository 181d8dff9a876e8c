package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Table prints the run for a terminal: what it depends on, the table, notes.
func Table(w io.Writer, s Summary) error {
	var b bytes.Buffer
	for _, f := range facts(s) {
		fmt.Fprintf(&b, "%-10s %s\n", f.Name(), f.Text())
	}
	b.WriteByte('\n')
	rows := [][]string{columns()}
	for _, r := range s.Rows {
		rows = append(rows, cells(r, s.Settings))
	}
	render.Table(&b, rows, isNumber)
	for _, r := range s.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(&b, "\n%s, as the client saw it:\n%s\n", render.Text(r.Name), render.Lines(r.Sequence))
		}
	}
	if n := notes(s); len(n) > 0 {
		b.WriteByte('\n')
		for _, line := range n {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
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

// isNumber says whether a column is one of numbers.
func isNumber(heading string) bool {
	return !slices.Contains([]string{"DATAPLANE", "VERDICT", "CLASSES", "MODEL [99.9 %]"}, heading)
}
