package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"

	"github.com/plumbline/plumbline/suites/report/plain"
	"github.com/plumbline/plumbline/suites/verdict"
)

//go:embed report.html.tmpl
var page string // const: embedding needs a variable

// view is what the page shows; html/template escapes all of its text.
type view struct {
	Scenario       string
	Facts          []Fact
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

func html(s Summary) ([]byte, error) {
	t, err := template.New("report.html").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("parse the template of report.html: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, newView(s)); err != nil {
		return nil, fmt.Errorf("render report.html: %w", err)
	}
	return b.Bytes(), nil
}

func newView(s Summary) view {
	v := view{
		Scenario: plain.Text(s.Scenario), Facts: facts(s), Columns: columns(),
		WordColumn: slices.Index(columns(), "VERDICT"), Notes: notes(s),
		Groups: groups(), RolloutColumns: rolloutColumns(), Legend: legend(),
	}
	for _, r := range s.Rows {
		row := viewRow{
			Name: plain.Text(r.Name), Word: string(r.Judge(s.Settings)),
			Sequence: plain.Lines(r.Sequence), Cells: cells(r, s.Settings),
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
