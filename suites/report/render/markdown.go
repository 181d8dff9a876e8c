package render

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MarkdownTable writes rows of any text, of which the first is the heading.
func MarkdownTable(b *bytes.Buffer, rows [][]string) {
	for i, row := range rows {
		cells := make([]string, len(row))
		for n, c := range row {
			cells[n] = Markdown(c)
		}
		markdownRow(b, cells)
		if i == 0 {
			markdownRow(b, slices.Repeat([]string{"---"}, len(row)))
		}
	}
}

// markdownRow writes cells that are Markdown already.
func markdownRow(b *bytes.Buffer, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// MarkdownFacts writes a list; facts without text are left out.
func MarkdownFacts(b *bytes.Buffer, facts []Fact) {
	for _, f := range facts {
		if text := Markdown(f.Text()); text != "" {
			fmt.Fprintf(b, "- **%s**: %s\n", Markdown(f.Name()), text)
		}
	}
}

// MarkdownList writes lines of any text.
func MarkdownList(b *bytes.Buffer, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", Markdown(line))
	}
}

// Markdown makes text literal in Markdown and in the HTML it is turned into, on one line.
// Within a word # and _ are literal anyway, and stay: escaped in a URL, they would
// become part of it where it is made a link.
func Markdown(s string) string {
	var b strings.Builder
	line := []rune(Line(s))
	for i, r := range line {
		within := i > 0 && i+1 < len(line) && alphanumeric(line[i-1]) && alphanumeric(line[i+1])
		switch {
		case within && (r == '#' || r == '_'):
			b.WriteRune(r)
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune("\\`*_{}[]#|~$", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func alphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// MarkdownCode makes lines a code block, in which nothing is markup.
func MarkdownCode(s string) string {
	return "    " + strings.ReplaceAll(Lines(s), "\n", "\n    ")
}
