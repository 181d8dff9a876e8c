package render

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Table pads the columns of rows, of which the first is the heading; those of numbers to
// the right.
func Table(b *bytes.Buffer, rows [][]string, numbers func(heading string) bool) {
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
			if numbers(rows[0][i]) {
				line[i] = pad + c
			} else {
				line[i] = c + pad
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(line, "  "), " ") + "\n")
	}
}
