package render

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table pads the columns of rows of any text, of which the first is the heading; those of
// numbers to the right.
func Table(b *bytes.Buffer, rows [][]string, numbers func(heading string) bool) {
	width := make([]int, len(rows[0]))
	rows = slices.Clone(rows)
	for i, row := range rows {
		rows[i] = make([]string, len(row))
		for n, c := range row {
			rows[i][n] = Line(c)
		}
	}
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
