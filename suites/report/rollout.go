package report

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/verdict"
)

func rolloutColumns() []string {
	return []string{
		"rollout", "sent", "lost", "slow", "window", "outage", "reconstructed", "residual",
		"rules after", "LB down after", "LB up at", "old pod gone", "p99 late", "classes", "causes", "note",
	}
}

func rolloutCells(v verdict.Rollout) []string {
	classes, causes := map[string]int{}, map[string]int{}
	for c, n := range v.Classes {
		if c.Lost() {
			classes[string(c)] += n
		}
	}
	for c, n := range v.Causes {
		causes[string(c)] += n
	}
	rec, res := "-", "-"
	if v.Reconstruction.Possible {
		rec, res = num(v.Reconstruction.Lost), signed(v.Reconstruction.Residual)
		if !v.Reconstruction.Within {
			res += " !"
		}
	}
	note := strings.Join(v.Warnings, "; ")
	if !v.Valid {
		note = "not counted: " + strings.Join(v.Reasons, "; ")
	}
	o := v.Observed
	return []string{
		fmt.Sprint(v.Number), fmt.Sprint(v.Sent), fmt.Sprint(v.Lost), fmt.Sprint(v.Slow),
		secs(v.LongestWindow), secs(v.LongestOutage), rec, res,
		opt(o.HCNPDown), opt(o.LBDown), opt(o.LBUp), opt(o.Gone),
		fmt.Sprintf("%.1f ms", v.Harness.Late.P99*1e3), list(sorted(classes)), list(sorted(causes)), clean(note),
	}
}

func opt(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f s", *s)
}
