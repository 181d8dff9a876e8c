package conformance

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Table prints the run for a terminal: what it depends on, the profiles, every
// test that did not pass, which failures are documented, and the conclusion.
func Table(w io.Writer, r Report) error {
	r = Complete(r)
	var b bytes.Buffer
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "%-14s %s\n", f.Name(), f.Text())
	}
	b.WriteByte('\n')
	render.Table(&b, profileTable(r), isNumber)
	rows := [][]string{{"TEST", "LEVEL", "RESULT", "REASON"}}
	for _, t := range r.Tests {
		if t.Result != Pass {
			rows = append(rows, []string{render.Line(t.Key()), t.level(), word(t), explained(t)})
		}
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		render.Table(&b, rows, isNumber)
	}
	b.WriteByte('\n')
	for _, line := range append(failures(r), fmt.Sprintf("%s: %s", r.Conclusion, render.Line(r.Why))) {
		b.WriteString(line + "\n")
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// isNumber says whether a column is one of numbers.
func isNumber(heading string) bool { return slices.Contains(countColumns(), heading) }
