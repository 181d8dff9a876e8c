package report

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

func markdown(s Summary) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Plumbline: %s\n\n", render.Markdown(s.Scenario))
	render.MarkdownFacts(&b, facts(s))
	b.WriteByte('\n')
	rows := [][]string{columns()}
	for _, r := range s.Rows {
		rows = append(rows, cells(r, s.Settings))
	}
	render.MarkdownTable(&b, rows)
	for _, r := range s.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(&b, "\n%s, as the client saw it:\n\n%s\n", render.Markdown(r.Name), render.MarkdownCode(r.Sequence))
		}
	}
	if n := notes(s); len(n) > 0 {
		b.WriteString("\n## Notes\n\n")
		render.MarkdownList(&b, n)
	}
	b.WriteString("\n## Rollouts\n")
	for _, r := range s.Rows {
		fmt.Fprintf(&b, "\n### %s\n\n", render.Markdown(r.Name))
		if len(r.Rollouts)+len(r.Invalid) == 0 {
			b.WriteString("None.\n")
			continue
		}
		rows := [][]string{rolloutColumns()}
		for _, v := range slices.Concat(r.Rollouts, r.Invalid) {
			rows = append(rows, rolloutCells(v))
		}
		render.MarkdownTable(&b, rows)
	}
	b.WriteString("\n## How to read this\n\n")
	render.MarkdownList(&b, legend())
	return b.Bytes()
}
