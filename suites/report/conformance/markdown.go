package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/plumbline/plumbline/suites/report/plain"
)

func markdown(r Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Conformance of %s\n\n**%s**: %s\n\n", md(implementation(r.Implementation)), r.Conclusion, md(r.Why))
	for _, f := range facts(r) {
		fmt.Fprintf(&b, "- **%s**: %s\n", f.Name, md(f.Text))
	}
	b.WriteString("\n## Profiles\n\n")
	mdTable(&b, profileTable(r))
	if len(r.Features) > 0 {
		b.WriteString("\n## Declared features\n\n")
		rows := [][]string{{"FEATURE", "STATE", "REASON"}}
		for _, f := range r.Features {
			rows = append(rows, []string{f.Name, string(f.State), f.Reason})
		}
		mdTable(&b, rows)
	}
	b.WriteString("\n## Failed and inconclusive\n")
	mdProblems(&b, r)
	b.WriteString("\n## All tests\n")
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "\n### %s\n\n", md(p.Name))
		rows := [][]string{{"TEST", "PROMISE", "LEVEL", "RESULT", "MEASURED", "REASON", "SOURCE", "UPSTREAM"}}
		for _, t := range r.Tests {
			if t.Profile == p.Name {
				rows = append(rows, []string{t.Key(), t.Title, string(t.Level), word(t), measured(t), explained(t), strings.Join(t.Source, ", "), t.Upstream})
			}
		}
		mdTable(&b, rows)
	}
	b.WriteString("\n## How to read this\n\n")
	for _, line := range legend() {
		fmt.Fprintf(&b, "- %s\n", md(line))
	}
	return b.Bytes()
}

func mdProblems(b *bytes.Buffer, r Report) {
	for i, line := range failures(r) {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "- %s\n", md(line))
	}
	for _, t := range problems(r.Tests) {
		fmt.Fprintf(b, "\n### %s %s (%s)\n\n", word(t), md(t.Key()), t.Level)
		for _, f := range []fact{
			{"promise", t.Title}, {"reason", reason(t)}, {"documented", t.Known}, {"measured", measured(t)},
			{"source", strings.Join(t.Source, ", ")}, {"evidence", strings.Join(t.Evidence, ", ")},
		} {
			if text := md(f.Text); text != "" {
				fmt.Fprintf(b, "- **%s**: %s\n", f.Name, text)
			}
		}
	}
	if len(problems(r.Tests)) == 0 {
		b.WriteString("\nNone.\n")
	}
}

// mdTable writes rows, of which the first is the heading.
func mdTable(b *bytes.Buffer, rows [][]string) {
	for i, row := range rows {
		cells := make([]string, len(row))
		for n, c := range row {
			cells[n] = md(c)
		}
		mdRow(b, cells)
		if i == 0 {
			mdRow(b, slices.Repeat([]string{"---"}, len(row)))
		}
	}
}

// mdRow writes cells that are Markdown already.
func mdRow(b *bytes.Buffer, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// md makes text literal in Markdown and in the HTML it is turned into, on one line.
// Within a word # and _ are literal anyway, and stay: escaped in a URL, they would
// become part of it where it is made a link.
func md(s string) string {
	var b strings.Builder
	line := []rune(plain.Line(s))
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
