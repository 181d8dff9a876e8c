package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/plumbline/plumbline/suites/report/plain"
)

// Table prints the run for a terminal: what it depends on, the table, notes.
func Table(w io.Writer, s Summary) error {
	var b bytes.Buffer
	for _, f := range facts(s) {
		fmt.Fprintf(&b, "%-10s %s\n", f.Name, f.Text)
	}
	b.WriteByte('\n')
	rows := [][]string{columns()}
	for _, r := range s.Rows {
		rows = append(rows, cells(r, s.Settings))
	}
	align(&b, rows)
	for _, r := range s.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(&b, "\n%s, as the client saw it:\n%s\n", plain.Text(r.Name), plain.Lines(r.Sequence))
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

// align pads the columns; those of numbers to the right.
func align(b *bytes.Buffer, rows [][]string) {
	left := map[string]bool{"DATAPLANE": true, "VERDICT": true, "CLASSES": true, "MODEL [99.9 %]": true}
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
			if left[rows[0][i]] {
				line[i] = c + pad
			} else {
				line[i] = pad + c
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(line, "  "), " ") + "\n")
	}
}
