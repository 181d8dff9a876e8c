package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// recordsOf is where the rollouts of a row are recorded, below the run's folder, and
// rolloutDir where the n-th of them is, below that.
func recordsOf(row int, name string) string { return fmt.Sprintf("%02d-%s", row+1, fileName(name)) }

func rolloutDir(n int) string { return fmt.Sprintf("rollout-%02d", n) }

func fileName(s string) string {
	return strings.Map(func(c rune) rune {
		if c == ' ' || c == '+' || c == '/' {
			return '-'
		}
		return c
	}, s)
}

// Judge gives the verdict on a run that was kept anew, from its records. Rollouts that
// were thrown away are judged as well: which of them count is part of the verdict.
func Judge(dir string) (report.Summary, error) {
	sum, err := report.Read(filepath.Join(dir, report.SummaryFile))
	if err != nil {
		return sum, err
	}
	for i := range sum.Scenarios {
		for n := range sum.Scenarios[i].Rows {
			if err := judgeRow(dir, sum.LB, sum.Scenarios[i], n); err != nil {
				return sum, err
			}
		}
	}
	return report.Complete(sum), nil
}

// judgeRow puts the row's rollouts where they belong now.
func judgeRow(dir string, lb report.LB, sc report.Scenario, n int) error {
	row := &sc.Rows[n]
	all := slices.Concat(row.Rollouts, row.Invalid)
	slices.SortFunc(all, func(a, b verdict.Rollout) int { return cmp.Compare(a.Number, b.Number) })
	row.Rollouts, row.Invalid = nil, nil
	ours := false
	for _, was := range all {
		streams, err := tape.Read(filepath.Join(dir, cmp.Or(row.Records, recordsOf(n, row.Name)), rolloutDir(was.Number)))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("judge rollout %d of %s anew: its records were not kept: %w", was.Number, row.Name, err)
		}
		if err != nil {
			return fmt.Errorf("judge rollout %d of %s anew: %w", was.Number, row.Name, err)
		}
		verdicts := make([]verdict.Rollout, len(streams))
		mine := -1
		for i, in := range streams {
			verdicts[i] = verdict.Judge(in)
			if in.Stream == cmp.Or(row.Stream, record.Main) {
				mine = i
			}
			ours = ours || in.Settings.LB != ""
		}
		if mine < 0 {
			return fmt.Errorf("judge rollout %d of %s anew: it has no stream %s", was.Number, row.Name, row.Stream)
		}
		if spoiled(verdicts) == "" {
			row.Rollouts = append(row.Rollouts, verdicts[mine])
		} else {
			row.Invalid = append(row.Invalid, verdicts[mine])
		}
	}
	row.Predicted = nil
	if ours && len(row.Rollouts) > 0 {
		row.Predicted = predict(lb, sc, *row)
	}
	return nil
}
