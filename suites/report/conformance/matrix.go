package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Matrix is a Markdown page of dataplanes by behaviours: what each report depends
// on, a table per profile with a row per behaviour and a column per report, and
// the reasons below. IP families of which every report says the same share a row.
// Its order does not depend on that of the reports.
func Matrix(reports []Report) string {
	m := newMatrix(reports)
	var b bytes.Buffer
	b.WriteString("# Service conformance\n\n")
	m.sentences(&b)
	m.columns(&b)
	for _, profile := range m.profiles() {
		fmt.Fprintf(&b, "\n## %s\n\n", render.Markdown(profile))
		m.table(&b, profile)
	}
	if len(m.notes) > 0 {
		b.WriteString("\n## Reasons\n\n")
		for i, note := range m.notes {
			fmt.Fprintf(&b, "%d. %s\n", i+1, render.Markdown(note))
		}
	}
	b.WriteString("\n## Legend\n\n")
	for _, line := range append(legend(), "A dash: the report has no such test. A number in parentheses: the reason, above. "+
		"A row without an IP family is about every one that was tested.") {
		fmt.Fprintf(&b, "- %s\n", render.Markdown(line))
	}
	return b.String()
}

type matrix struct {
	reports []Report
	labels  []string
	rows    []Test   // one per key, as the first report has it
	notes   []string // reasons, in the order of their numbers
}

func newMatrix(reports []Report) *matrix {
	m := &matrix{}
	for _, r := range reports {
		m.reports = append(m.reports, Complete(r))
	}
	slices.SortStableFunc(m.reports, func(a, b Report) int {
		return cmp.Or(
			cmp.Compare(label(a), label(b)), cmp.Compare(a.Environment.Cluster, b.Environment.Cluster),
			cmp.Compare(a.Implementation.Version, b.Implementation.Version), a.Date.Compare(b.Date), cmp.Compare(a.Seed, b.Seed),
		)
	})
	m.name()
	seen := map[string]bool{}
	for _, r := range m.reports {
		for _, t := range r.Tests {
			if !seen[t.Key()] {
				seen[t.Key()] = true
				m.rows = append(m.rows, t)
			}
		}
	}
	slices.SortStableFunc(m.rows, byPlace)
	return m
}

func label(r Report) string {
	return render.Joined(" ", r.Implementation.Project, r.Implementation.Mode)
}

// name gives each column a name of its own: with its cluster, if there are several,
// marked if its run was not of the whole catalogue, and a number where that is needed.
func (m *matrix) name() {
	clusters, used := map[string]bool{}, map[string]int{}
	for _, r := range m.reports {
		clusters[r.Environment.Cluster] = true
	}
	for _, r := range m.reports {
		name := label(r)
		if len(clusters) > 1 {
			name = render.Joined(" ", name, render.Parens(r.Environment.Cluster))
		}
		if !whole(r) {
			name += " (partial)"
		}
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s %d", name, used[name])
		}
		m.labels = append(m.labels, name)
	}
}

// sentences say of each dataplane what came of it and why, and how much of what failed is known.
func (m *matrix) sentences(b *bytes.Buffer) {
	for i, r := range m.reports {
		failed, known := 0, 0
		for _, t := range r.Tests {
			if t.Result == Fail {
				failed++
				if t.Known != "" {
					known++
				}
			}
		}
		said := fmt.Sprintf("%s is %s: %s", render.Joined(" ", m.labels[i], r.Implementation.Version), r.Conclusion, r.Why)
		if failed > 0 {
			said += fmt.Sprintf("; documented: %d of %d failures", known, failed)
		}
		fmt.Fprintf(b, "- %s\n", render.Markdown(said))
	}
	b.WriteString("\n")
}

func (m *matrix) columns(b *bytes.Buffer) {
	rows := [][]string{append([]string{
		"DATAPLANE", "VERSION", "CONCLUSION", "DATE", "CLUSTER", "KUBERNETES", "KERNEL", "CNI", "IP FAMILY", "HARNESS", "SEED",
	}, countColumns()...)}
	for i, r := range m.reports {
		e := r.Environment
		conclusion := string(r.Conclusion)
		if !whole(r) {
			conclusion = render.Joined(", ", conclusion, chosen(r))
		}
		rows = append(rows, append([]string{
			m.labels[i], r.Implementation.Version, conclusion, r.Date.UTC().Format(time.DateOnly), render.Joined(", ", e.Cluster, some(e.Nodes, "node"), some(e.Zones, "zone")),
			e.Kubernetes, e.Kernel, e.CNI, e.IPFamily, harness(r.Harness), fmt.Sprint(r.Seed),
		}, countCells(count(r.Tests, func(Test) bool { return true }))...))
	}
	render.MarkdownTable(b, rows)
}

func (m *matrix) profiles() []string {
	var out []string
	for _, t := range m.rows {
		if !slices.Contains(out, t.Profile) {
			out = append(out, t.Profile)
		}
	}
	return out
}

func (m *matrix) table(b *bytes.Buffer, profile string) {
	rows := [][]string{append([]string{"BEHAVIOUR", "PROMISE", "LEVEL"}, m.labels...)}
	for i := 0; i < len(m.rows); {
		t, first := m.rows[i], i
		for i < len(m.rows) && m.rows[i].Profile == t.Profile && m.rows[i].ID == t.ID {
			i++
		}
		if t.Profile == profile {
			rows = append(rows, m.behaviour(m.rows[first:i])...)
		}
	}
	render.MarkdownTable(b, rows)
}

// behaviour is one row, or one for each of its IP families where they differ.
func (m *matrix) behaviour(families []Test) [][]string {
	var rows [][]string
	same := len(families) > 1
	for _, t := range families {
		row := []string{t.Key(), t.Title, string(t.Level)}
		for _, r := range m.reports {
			row = append(row, m.cell(r, t.Key()))
		}
		rows = append(rows, row)
		same = same && slices.Equal(row[1:], rows[0][1:])
	}
	if same {
		rows[0][0] = families[0].ID
		return rows[:1]
	}
	return rows
}

// cell is what a report says of a test, with the number of its reason: of what is
// documented, if anything is, which other runs share.
func (m *matrix) cell(r Report, key string) string {
	i := slices.IndexFunc(r.Tests, func(t Test) bool { return t.Key() == key })
	if i < 0 {
		return "-"
	}
	t := r.Tests[i]
	if t.Result == Pass {
		return word(t)
	}
	return fmt.Sprintf("%s (%d)", word(t), m.note(cmp.Or(documented(t), reason(t))))
}

// note is the number of a reason: equal reasons share one.
func (m *matrix) note(text string) int {
	i := slices.Index(m.notes, strings.TrimSpace(text))
	if i < 0 {
		m.notes = append(m.notes, strings.TrimSpace(text))
		i = len(m.notes) - 1
	}
	return i + 1
}
