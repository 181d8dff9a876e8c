package conformance

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/plumbline/plumbline/suites/report/plain"
)

// Table prints the run for a terminal: what it depends on, the profiles, every
// test that did not pass, which failures are documented, and the conclusion.
func Table(w io.Writer, r Report) error {
	r = Complete(r)
	var b bytes.Buffer
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "%-14s %s\n", f.Name, f.Text)
	}
	b.WriteByte('\n')
	align(&b, profileTable(r))
	rows := [][]string{{"TEST", "LEVEL", "RESULT", "REASON"}}
	for _, t := range r.Tests {
		if t.Result != Pass {
			rows = append(rows, []string{plain.Line(t.Key()), string(t.Level), word(t), explained(t)})
		}
	}
	if len(rows) > 1 {
		b.WriteByte('\n')
		align(&b, rows)
	}
	b.WriteByte('\n')
	for _, line := range append(failures(r), fmt.Sprintf("%s: %s", r.Conclusion, plain.Line(r.Why))) {
		b.WriteString(line + "\n")
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// align pads the columns; those of statistics to the right.
func align(b *bytes.Buffer, rows [][]string) {
	right := map[string]bool{}
	for _, c := range countColumns() {
		right[c] = true
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		line := make([]string, len(row))
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[rows[0][i]] {
				line[i] = pad + c
			} else {
				line[i] = c + pad
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(line, "  "), " ") + "\n")
	}
}
