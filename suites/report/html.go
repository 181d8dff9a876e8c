package report

import (
	_ "embed"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/timeline"
	"github.com/plumbline/plumbline/suites/verdict"
)

//go:embed report.html.tmpl
var page string // const: embedding needs a variable

// view is what the page shows; html/template escapes all of its text.
type view struct {
	Title          string
	Facts          []render.Fact
	Overview       [][]string // every dataplane by every scenario; none of one scenario
	Alone          bool       // there is one scenario
	Notes          []string
	Scenarios      []viewScenario
	Groups         []group
	Columns        []string
	WordColumn     int
	RolloutColumns []string
	Legend         []string
}

// viewScenario has a heading and facts of its own where there are several.
type viewScenario struct {
	Name, Zero string
	Facts      []render.Fact
	Rows       []viewRow
	Notes      []string
}

type viewRow struct {
	Name, Word, Sequence string
	Cells                []string
	Rollouts             []viewRollout
}

type viewRollout struct {
	Number, Lost, Sent int
	Valid, Open        bool
	Cells              []string
	Sensitivity        []verdict.AtTimeout
	Drawing            *drawing
}

func html(s Summary) ([]byte, error) { return render.Page(HTMLFile, page, newView(s)) }

func newView(s Summary) view {
	v := view{
		Title: names(s), Alone: alone(s) != nil, Facts: facts(s), Columns: columns(), Notes: notes(s),
		WordColumn: slices.Index(columns(), "VERDICT"),
		Groups:     groups(), RolloutColumns: rolloutColumns(), Legend: legend(),
	}
	if len(s.Scenarios) > 1 {
		v.Overview = overview(s)
	}
	for _, sc := range s.Scenarios {
		part := viewScenario{Zero: zeroText(sc)}
		if !v.Alone {
			part.Name, part.Facts, part.Notes = render.Text(sc.Name), scenarioFacts(sc), scenarioNotes(sc, s.LB)
		}
		for _, r := range sc.Rows {
			part.Rows = append(part.Rows, newViewRow(r, sc))
		}
		v.Scenarios = append(v.Scenarios, part)
	}
	return v
}

func newViewRow(r Row, sc Scenario) viewRow {
	row := viewRow{
		Name: render.Text(r.Name), Word: string(r.Judge(sc)),
		Sequence: render.Lines(r.Sequence), Cells: cells(r, sc),
	}
	for _, list := range [][]verdict.Rollout{r.Rollouts, r.Invalid} {
		for _, ro := range list {
			row.Rollouts = append(row.Rollouts, viewRollout{
				Number: ro.Number, Lost: ro.Lost, Sent: ro.Sent, Valid: ro.Valid,
				Open:  len(row.Rollouts) == 0, // the first of each row
				Cells: rolloutCells(ro), Sensitivity: ro.Sensitivity, Drawing: draw(ro),
			})
		}
	}
	return row
}

// zeroText says what the drawings' time begins with.
func zeroText(sc Scenario) string {
	if sc.Starts == (timeline.Start{}) {
		return "the deletion of the old pod"
	}
	return "the first " + render.Text(sc.Starts.String())
}
