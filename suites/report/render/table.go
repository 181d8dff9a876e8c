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

// Fit leaves out columns from the right until a table is no wider than a terminal, and cuts the
// second one, which names things, as far as to 30 letters; 0: it may be as wide as it is.
func Fit(rows [][]string, width int) [][]string {
	if width <= 0 {
		return rows
	}
	const least = 30 // of a name
	for {
		over := wide(rows) - width
		name := longest(rows, 1) - over // as long as it may be
		switch {
		case over <= 0:
			return rows
		case name >= least || len(rows[0]) <= 3:
			return each(rows, func(row []string) []string {
				row = slices.Clone(row)
				if letters := []rune(Line(row[1])); len(letters) > max(name, 2) {
					row[1] = string(letters[:max(name, 2)-1]) + "…"
				}
				return row
			})
		}
		rows = each(rows, func(row []string) []string { return row[:len(row)-1] })
	}
}

func each(rows [][]string, f func([]string) []string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = f(row)
	}
	return out
}

// longest cell of a column.
func longest(rows [][]string, column int) (n int) {
	for _, row := range rows {
		n = max(n, utf8.RuneCountInString(Line(row[column])))
	}
	return n
}

// wide is how wide a table is.
func wide(rows [][]string) (n int) {
	for i := range rows[0] {
		n += longest(rows, i) + 2
	}
	return n - 2
}

// Wrap breaks text between words at a terminal's width, and within a word that is longer than a
// line; lines but the first are indented. 0: it is one line.
func Wrap(b *bytes.Buffer, text string, width int, indent string) {
	line := ""
	for _, word := range pieces(strings.Fields(text), width-utf8.RuneCountInString(indent)) {
		switch {
		case line == "":
			line = word
		case width <= 0 || utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			b.WriteString(line + "\n")
			line = indent + word
		}
	}
	b.WriteString(line + "\n")
}

// pieces are words of so many letters at most; 0: of any number.
func pieces(words []string, most int) (out []string) {
	for _, w := range words {
		for letters := []rune(w); most > 0 && len(letters) > most; letters = letters[most:] {
			out, w = append(out, string(letters[:most])), string(letters[most:])
		}
		out = append(out, w)
	}
	return out
}

// Cut ends each line of a table at a terminal's width, with an ellipsis; 0: it has none.
func Cut(table []byte, width int) []byte {
	if width <= 0 {
		return table
	}
	var out bytes.Buffer
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSuffix(line, "\n")
		if letters := []rune(line); len(letters) > width {
			line = string(letters[:width-1]) + "…"
		}
		out.WriteString(line + "\n")
	}
	return out.Bytes()
}
