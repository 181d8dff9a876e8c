package report

import (
	_ "embed"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

//go:embed report.html.tmpl
var page string // const: embedding needs a variable

// view is what the page shows; html/template escapes all of its text.
type view struct {
	Scenario       string
	Facts          []render.Fact
	Columns        []string
	WordColumn     int
	Rows           []viewRow
	Notes          []string
	Groups         []group
	RolloutColumns []string
	Legend         []string
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
		Scenario: render.Text(s.Scenario), Facts: facts(s), Columns: columns(),
		WordColumn: slices.Index(columns(), "VERDICT"), Notes: notes(s),
		Groups: groups(), RolloutColumns: rolloutColumns(), Legend: legend(),
	}
	for _, r := range s.Rows {
		row := viewRow{
			Name: render.Text(r.Name), Word: string(r.Judge(s.Settings)),
			Sequence: render.Lines(r.Sequence), Cells: cells(r, s.Settings),
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
		v.Rows = append(v.Rows, row)
	}
	return v
}
