package conformance

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

func markdown(r Report) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Conformance of %s\n\n**%s**: %s\n\n", render.Markdown(implementation(r.Implementation)), r.Conclusion, render.Markdown(r.Why))
	render.MarkdownFacts(&b, facts(r))
	b.WriteString("\n## Profiles\n\n")
	render.MarkdownTable(&b, profileTable(r))
	if len(r.Features) > 0 {
		b.WriteString("\n## Declared features\n\n")
		rows := [][]string{{"FEATURE", "STATE", "REASON"}}
		for _, f := range r.Features {
			rows = append(rows, []string{f.Name, string(f.State), f.Reason})
		}
		render.MarkdownTable(&b, rows)
	}
	b.WriteString("\n## Failed and inconclusive\n")
	mdProblems(&b, r)
	b.WriteString("\n## All tests\n")
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "\n### %s\n\n", render.Markdown(p.Name))
		rows := [][]string{{"TEST", "PROMISE", "LEVEL", "RESULT", "MEASURED", "REASON", "SOURCE", "UPSTREAM"}}
		for _, t := range r.Tests {
			if t.Profile == p.Name {
				rows = append(rows, []string{t.Key(), t.Title, t.level(), word(t), measured(t), explained(t), strings.Join(t.Source, ", "), t.Upstream})
			}
		}
		render.MarkdownTable(&b, rows)
	}
	b.WriteString("\n## How to read this\n\n")
	render.MarkdownList(&b, legend())
	return b.Bytes()
}

func mdProblems(b *bytes.Buffer, r Report) {
	if known := failures(r); len(known) > 0 {
		b.WriteByte('\n')
		render.MarkdownList(b, known)
	}
	q := &quoter{quota: markdownQuota, tests: len(problems(r.Tests))}
	for _, t := range problems(r.Tests) {
		fmt.Fprintf(b, "\n### %s %s (%s)\n\n", word(t), render.Markdown(t.Key()), t.level())
		render.MarkdownFacts(b, []render.Fact{
			{"promise", t.Title}, {"promised by", strings.Join(t.Promised, "; ")}, {"reason", reason(t)}, {"sent", t.Sent}, {"came back", t.Came}, {"documented", t.Known}, {"measured", measured(t)},
			{"source", strings.Join(t.Source, ", ")}, {"evidence", strings.Join(t.Evidence, ", ")},
		})
		mdSteps(b, t, q)
	}
	if len(problems(r.Tests)) == 0 {
		b.WriteString("\nNone.\n")
	}
}

// mdSteps are what a test did, and who has the addresses that it names.
func mdSteps(b *bytes.Buffer, t Test, q *quoter) {
	steps, before, _ := q.next(t)
	if text := earlier(before, steps); text != "" {
		fmt.Fprintf(b, "\n%s\n", text)
	}
	if len(steps) > 0 {
		rows := [][]string{{"AT", "STEP", "OUTCOME"}}
		for _, s := range steps {
			rows = append(rows, []string{s.At.String(), s.Did, s.Came})
		}
		b.WriteByte('\n')
		render.MarkdownTable(b, rows)
	}
	if len(t.Legend) > 0 {
		rows := [][]string{{"ADDRESS", "WHO"}}
		for _, n := range t.Legend {
			rows = append(rows, []string{n.Address, n.Who})
		}
		b.WriteByte('\n')
		render.MarkdownTable(b, rows)
	}
}
