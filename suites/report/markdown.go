package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/plain"
)

func markdown(s Summary) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Plumbline: %s\n\n", md(s.Scenario))
	for _, f := range facts(s) {
		fmt.Fprintf(&b, "- **%s**: %s\n", f.Name, md(f.Text))
	}
	b.WriteByte('\n')
	mdRow(&b, columns())
	mdRow(&b, strings.Split(strings.Repeat("---,", len(columns())-1)+"---", ","))
	for _, r := range s.Rows {
		c := cells(r, s.Settings)
		for i := range c {
			c[i] = md(c[i])
		}
		mdRow(&b, c)
	}
	for _, r := range s.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(&b, "\n%s, as the client saw it:\n\n%s\n", md(r.Name), indent(plain.Lines(r.Sequence)))
		}
	}
	if n := notes(s); len(n) > 0 {
		b.WriteString("\n## Notes\n\n")
		for _, line := range n {
			fmt.Fprintf(&b, "- %s\n", md(line))
		}
	}
	b.WriteString("\n## Rollouts\n")
	for _, r := range s.Rows {
		fmt.Fprintf(&b, "\n### %s\n\n", md(r.Name))
		mdRollouts(&b, r)
	}
	b.WriteString("\n## How to read this\n\n")
	for _, line := range legend() {
		fmt.Fprintf(&b, "- %s\n", md(line))
	}
	return b.Bytes()
}

func mdRollouts(b *bytes.Buffer, r Row) {
	if len(r.Rollouts)+len(r.Invalid) == 0 {
		b.WriteString("None.\n")
		return
	}
	mdRow(b, rolloutColumns())
	mdRow(b, strings.Split(strings.Repeat("---,", len(rolloutColumns())-1)+"---", ","))
	for _, v := range r.Rollouts {
		mdRow(b, mdAll(rolloutCells(v)))
	}
	for _, v := range r.Invalid {
		mdRow(b, mdAll(rolloutCells(v)))
	}
}

func mdAll(c []string) []string {
	for i := range c {
		c[i] = md(c[i])
	}
	return c
}

func mdRow(b *bytes.Buffer, c []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(c, " | "))
}

// md makes text literal in Markdown and in the HTML it is turned into.
func md(s string) string {
	var b strings.Builder
	for _, r := range plain.Text(s) {
		switch {
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

// indent makes lines a code block, in which nothing is markup.
func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
