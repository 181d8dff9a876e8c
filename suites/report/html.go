package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/timeline"
	"github.com/plumbline/plumbline/suites/verdict"
)

//go:embed report.html.tmpl
var page string // const: embedding needs a variable

// view is what the page shows; html/template escapes all of its text.
type view struct {
	Style                    template.CSS
	Title, Conclusion, Class string
	Top                      []string // what was run, on what, and when
	Files                    []string // of the run, beside the page
	Scenarios                []viewScenario
	Overview                 [][]string    // every dataplane by every scenario; none of one scenario
	Facts                    []render.Fact // settings
	Notes                    []string
	Causes                   []viewCause
	Columns                  []string
	RolloutColumns           []string
	Legend                   []string
}

// viewScenario has a heading and facts of its own where there are several.
type viewScenario struct {
	Name, Title, Zero string
	Cited             []render.Citation
	Facts             []render.Fact
	Rows              []viewRow
	Notes             []string
}

type viewRow struct {
	Name, Word, Class, Sequence       string
	Story                             story
	Lost, Sent, Window, Slow, Latency string
	Cause                             string
	Range                             *viewRange
	Cells                             []string
	Rollouts                          []viewRollout
	Records                           string // folder beside the page; empty: not known
}

// viewRange is what was measured beside what the model allows, on the scale of all rows.
type viewRange struct {
	Dot, From, Wide string // From empty: no model
	Label           string
}

type viewRollout struct {
	Number, Lost, Sent int
	Valid, Open        bool
	Cells              []string
	Sensitivity        string
	Drawing            *drawing
}

type viewCause struct {
	Name string
	meaning
	N int
}

func html(s Summary) ([]byte, error) { return render.Page(HTMLFile, page, newView(s)) }

func newView(s Summary) view {
	v := view{
		Style:      template.CSS(render.Style),
		Conclusion: conclusion(s), Class: lookOfRun(s),
		Top: topOf(s), Files: []string{SummaryFile, MarkdownFile, JUnitFile, TraceFile},
		Facts: facts(s), Columns: columns(), RolloutColumns: rolloutColumns(), Legend: legend(), Causes: causesOf(s),
	}
	if p := runProblem(s); p != "" {
		v.Notes = append(v.Notes, p)
	}
	v.Title = v.Conclusion + " - " + names(s)
	if len(s.Scenarios) > 1 {
		v.Overview = overview(s)
	}
	for _, sc := range s.Scenarios {
		part := viewScenario{Name: render.Text(sc.Name), Title: render.Text(sc.Title), Zero: zeroText(sc), Notes: scenarioNotes(sc, s.LB)}
		if alone(s) == nil {
			part.Facts = scenarioFacts(sc)
		}
		for _, source := range sc.Source {
			part.Cited = append(part.Cited, render.Cite(source))
		}
		most := mostOf(sc)
		for _, r := range sc.Rows {
			part.Rows = append(part.Rows, newViewRow(r, sc, most))
		}
		v.Scenarios = append(v.Scenarios, part)
	}
	return v
}

// topOf says what was run, on what, and when.
func topOf(s Summary) []string {
	var out []string
	for _, sc := range s.Scenarios {
		out = append(out, render.Text(sc.Name))
	}
	out = []string{strings.Join(out, ", "), clusterText(s.Environment)}
	if !s.Started.IsZero() {
		out = append(out, s.Started.UTC().Format("2006-01-02 15:04:05Z"))
	}
	if d := s.Finished.Sub(s.Started); d > 0 && !s.Started.IsZero() {
		out = append(out, "took "+d.Round(time.Second).String())
	}
	return out
}

// mostOf is the end of the scale on which a scenario's rows stand.
func mostOf(sc Scenario) float64 {
	most := 1.0
	for _, r := range sc.Rows {
		most = max(most, float64(r.Lost()))
		if r.Predicted != nil {
			most = max(most, r.Predicted.Band999.High)
		}
	}
	return most
}

// folder is what can be linked to.
var folder = regexp.MustCompile(`^(\.\./)?[0-9][A-Za-z0-9._/-]*$`) // const

func newViewRow(r Row, sc Scenario, most float64) viewRow {
	word := r.Judge(sc)
	row := viewRow{
		Name: render.Text(r.Name), Word: string(word), Class: lookOf(word), Story: r.story(sc),
		Sequence: render.Lines(r.Sequence), Cells: cells(r, sc),
		Lost: "-", Sent: "-", Window: "-", Slow: "-", Latency: "-", Cause: r.cause(sc),
	}
	if len(r.Rollouts) > 0 {
		row.Lost, row.Sent = fmt.Sprint(r.Lost()), fmt.Sprint(r.Sent())
		row.Window, row.Slow = secs(r.LongestWindow()), fmt.Sprint(r.Slow())
		if p99 := r.longest(func(v verdict.Rollout) float64 { return v.Latency.P99 }); p99 > 0 { // any was answered
			row.Latency = fmt.Sprintf("%.0f ms", 1e3*p99)
		}
		row.Range = rangeOf(r, most)
	}
	if folder.MatchString(r.Records) {
		row.Records = r.Records + "/"
	}
	worst := worstOf(r)
	for _, ro := range slices.Concat(r.Rollouts, r.Invalid) {
		row.Rollouts = append(row.Rollouts, viewRollout{
			Number: ro.Number, Lost: ro.Lost, Sent: ro.Sent, Valid: ro.Valid, Open: ro.Number == worst,
			Cells: rolloutCells(ro), Sensitivity: sensitivityText(ro.Sensitivity), Drawing: draw(ro),
		})
	}
	return row
}

// worstOf is the number of the rollout that is to be looked at first: it counts, if one does, and
// lost the most.
func worstOf(r Row) int {
	list := r.Rollouts
	if len(list) == 0 {
		list = r.Invalid
	}
	worst, most := 0, -1
	for _, v := range list {
		if n := v.Lost*1000 + v.Slow; n > most {
			worst, most = v.Number, n
		}
	}
	return worst
}

func rangeOf(r Row, most float64) *viewRange {
	const wide = 200.0
	at := func(n float64) string { return fmt.Sprintf("%.1f", 6+n/most*(wide-12)) }
	out := &viewRange{Dot: at(float64(r.Lost())), Label: fmt.Sprintf("%d lost", r.Lost())}
	if p := r.Predicted; p != nil {
		out.From = at(p.Band999.Low)
		out.Wide = fmt.Sprintf("%.1f", max(p.Band999.Width()/most*(wide-12), 1))
		out.Label += fmt.Sprintf("; the model allows %s to %s", num(p.Band999.Low), num(p.Band999.High))
	}
	return out
}

// sensitivityText is what would have been lost and slow with a client of other patience.
func sensitivityText(all []verdict.AtTimeout) string {
	var parts []string
	for _, a := range all {
		text := fmt.Sprintf("%s s: %d / %d", num(a.Timeout), a.Lost, a.Slow)
		if a.Censored > 0 {
			text += fmt.Sprintf(" (%d given up earlier)", a.Censored)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

// causesOf are the causes that a run names, with what they mean, the most frequent first.
func causesOf(s Summary) []viewCause {
	n := map[string]int{}
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			for _, c := range append(r.Causes(), r.SlowCauses()...) {
				n[c.Name] += c.N
			}
		}
	}
	var out []viewCause
	for _, c := range sorted(n) {
		out = append(out, viewCause{Name: c.Name, N: c.N, meaning: meaningOf(verdict.Cause(c.Name))})
	}
	return out
}

// zeroText says what the drawings' time begins with.
func zeroText(sc Scenario) string {
	if sc.Starts == (timeline.Start{}) {
		return "the deletion of the old pod"
	}
	return "the first " + render.Text(sc.Starts.String())
}
