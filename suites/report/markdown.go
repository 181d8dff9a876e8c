package report

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
)

func markdown(s Summary) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Plumbline: %s\n\n**%s**\n\n", render.Markdown(names(s)), render.Markdown(conclusion(s)))
	var says []string
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			line := r.says(sc)
			if alone(s) == nil {
				line = render.Text(sc.Name) + ": " + line
			}
			says = append(says, line)
		}
	}
	render.MarkdownList(&b, says)
	b.WriteByte('\n')
	render.MarkdownFacts(&b, facts(s))
	b.WriteByte('\n')
	if sc := alone(s); sc != nil {
		markdownRows(&b, *sc)
		markdownNotes(&b, "##", notes(s))
		markdownRollouts(&b, "##", *sc)
	} else {
		render.MarkdownTable(&b, overview(s))
		markdownNotes(&b, "##", notes(s))
		for _, sc := range s.Scenarios {
			fmt.Fprintf(&b, "\n## %s\n\n", render.Markdown(sc.Name))
			render.MarkdownFacts(&b, scenarioFacts(sc))
			b.WriteByte('\n')
			markdownRows(&b, sc)
			markdownNotes(&b, "###", scenarioNotes(sc, s.LB))
			markdownRollouts(&b, "###", sc)
		}
	}
	b.WriteString("\n## How to read this\n\n")
	render.MarkdownList(&b, legend())
	return b.Bytes()
}

func markdownRows(b *bytes.Buffer, sc Scenario) {
	render.MarkdownTable(b, rowsOf(sc))
	for _, r := range sc.Rows {
		if r.Sequence != "" {
			fmt.Fprintf(b, "\n%s, as the client saw it:\n\n%s\n", render.Markdown(r.Name), render.MarkdownCode(r.Sequence))
		}
	}
}

func markdownNotes(b *bytes.Buffer, level string, notes []string) {
	if len(notes) > 0 {
		fmt.Fprintf(b, "\n%s Notes\n\n", level)
		render.MarkdownList(b, notes)
	}
}

func markdownRollouts(b *bytes.Buffer, level string, sc Scenario) {
	fmt.Fprintf(b, "\n%s Rollouts\n", level)
	for _, r := range sc.Rows {
		fmt.Fprintf(b, "\n%s# %s\n\n", level, render.Markdown(r.Name))
		if len(r.Rollouts)+len(r.Invalid) == 0 {
			b.WriteString("None.\n")
			continue
		}
		rows := [][]string{rolloutColumns()}
		for _, v := range slices.Concat(r.Rollouts, r.Invalid) {
			rows = append(rows, rolloutCells(v))
		}
		render.MarkdownTable(b, rows)
	}
}
