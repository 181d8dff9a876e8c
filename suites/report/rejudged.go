package report

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// Rejudged names the rollouts on which two verdicts on the same records differ, a line
// each, and ends with how many there are.
func Rejudged(was, now Summary) []string {
	var lines []string
	all := 0
	for _, p := range pairsOf(was, now) {
		if p.B == nil {
			continue
		}
		before := map[int]verdict.Rollout{}
		if p.A != nil {
			for _, v := range slices.Concat(p.A.Invalid, p.A.Rollouts) {
				before[v.Number] = v
			}
		}
		for _, v := range slices.Concat(p.B.Invalid, p.B.Rollouts) {
			all++
			if what := changed(before[v.Number], v); what != "" {
				lines = append(lines, fmt.Sprintf("%s, rollout %d: %s", render.Text(p.Name), v.Number, what))
			}
		}
	}
	return append(lines, fmt.Sprintf("%d of %d rollouts are judged otherwise than when they were run", len(lines), all))
}

// changed says in what two verdicts on one rollout differ; empty: in nothing that counts.
func changed(a, b verdict.Rollout) string {
	switch {
	case a.Valid != b.Valid:
		return fmt.Sprintf("valid %v, now %v", a.Valid, b.Valid)
	case a.Lost != b.Lost || a.Slow != b.Slow:
		return fmt.Sprintf("lost %d and slow %d, now %d and %d", a.Lost, a.Slow, b.Lost, b.Slow)
	case !maps.Equal(a.Classes, b.Classes):
		return fmt.Sprintf("classes %v, now %v", a.Classes, b.Classes)
	case !maps.Equal(a.Causes, b.Causes):
		return fmt.Sprintf("causes %v, now %v", a.Causes, b.Causes)
	case !maps.Equal(a.SlowCauses, b.SlowCauses):
		return fmt.Sprintf("causes of slow answers %v, now %v", a.SlowCauses, b.SlowCauses)
	case a.LostSound != b.LostSound || a.SlowSound != b.SlowSound:
		return fmt.Sprintf("at sound moments lost %d and slow %d, now %d and %d", a.LostSound, a.SlowSound, b.LostSound, b.SlowSound)
	case a.Excepted.Lost != b.Excepted.Lost || a.Excepted.LostSound != b.Excepted.LostSound || a.Excepted.SlowSound != b.Excepted.SlowSound:
		return fmt.Sprintf("the scenario's own doing %+v, now %+v", a.Excepted, b.Excepted)
	case a.Reconstruction.Within != b.Reconstruction.Within:
		return fmt.Sprintf("explained %v, now %v", a.Reconstruction.Within, b.Reconstruction.Within)
	case len(a.NodeWindows) != len(b.NodeWindows):
		return fmt.Sprintf("%d windows, now %d", len(a.NodeWindows), len(b.NodeWindows))
	}
	return ""
}
