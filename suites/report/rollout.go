package report

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

func rolloutColumns() []string {
	return []string{
		"rollout", "sent", "lost", "slow", "window", "outage", "reconstructed", "residual",
		"503 after", "LB down after", "LB up at", "503 to DOWN", "200 to UP", "old pod gone", "latency p50 / p99 / max", "p99 late", "classes", "causes", "note",
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
			res += fmt.Sprintf(" ! %s unexplained", num(v.Reconstruction.Unexplained))
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
		opt(o.HCNPDown), opt(o.LBDown), opt(o.LBUp), opt(o.Removal), opt(o.Admission), opt(o.Gone), latency(v.Latency),
		fmt.Sprintf("%.1f ms", v.Harness.Late.P99*1e3), list(sorted(classes)), list(sorted(causes)), render.Text(note),
	}
}

func opt(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f s", *s)
}

func latency(q verdict.Quantiles) string {
	if q.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f / %.1f / %.1f ms", q.P50*1e3, q.P99*1e3, q.Max*1e3)
}
