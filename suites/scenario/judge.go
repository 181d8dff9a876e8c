package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// recordsOf is where the n-th rollout of a row is recorded, below the run's folder.
func recordsOf(dir string, row int, r report.Row, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%02d-%s", row+1, fileName(r.Name)), fmt.Sprintf("rollout-%02d", n))
}

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
	for i := range sum.Rows {
		if err := judgeRow(dir, sum, i); err != nil {
			return sum, err
		}
	}
	return report.Complete(sum), nil
}

// judgeRow puts the row's rollouts where they belong now.
func judgeRow(dir string, sum report.Summary, n int) error {
	row := &sum.Rows[n]
	all := slices.Concat(row.Rollouts, row.Invalid)
	slices.SortFunc(all, func(a, b verdict.Rollout) int { return cmp.Compare(a.Number, b.Number) })
	row.Rollouts, row.Invalid = nil, nil
	ours := false
	for _, was := range all {
		in, err := tape.Read(recordsOf(dir, n, *row, was.Number))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("judge rollout %d of %s anew: its records were not kept: %w", was.Number, row.Name, err)
		}
		if err != nil {
			return fmt.Errorf("judge rollout %d of %s anew: %w", was.Number, row.Name, err)
		}
		ours = ours || in.Settings.LB != ""
		if v := verdict.Judge(in); v.Valid {
			row.Rollouts = append(row.Rollouts, v)
		} else {
			row.Invalid = append(row.Invalid, v)
		}
	}
	row.Predicted = nil
	if ours && len(row.Rollouts) > 0 {
		row.Predicted = predict(sum, *row)
	}
	return nil
}
