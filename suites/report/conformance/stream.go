package conformance

import (
	"fmt"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// maxOutages is how many outages of a stream are told one by one.
const maxOutages = 3

// streamText is a stream in one line: what was sent, what was lost and when, and how
// long an answer took.
func streamText(s Stream) string {
	t := fmt.Sprintf("%s to %s: %d sent at %g/s, %d failed", render.Line(s.Client), render.Line(s.Target), s.Sent, s.Rate, s.Failed)
	var each []string
	for _, o := range s.Outages[:min(len(s.Outages), maxOutages)] {
		each = append(each, fmt.Sprintf("%s at %s", short(o.Length), short(o.Start)))
	}
	switch rest := len(s.Outages) - len(each); {
	case len(s.Outages) == 1:
		t += " in one outage of " + each[0]
	case rest > 0:
		t += fmt.Sprintf(" in %d outages of %s and %d more", len(s.Outages), strings.Join(each, ", "), rest)
	case len(each) > 0:
		t += fmt.Sprintf(" in %d outages of %s", len(s.Outages), strings.Join(each, ", "))
	}
	if s.Max > 0 { // something was answered
		t += fmt.Sprintf(", p50 %s p99 %s max %s", s.P50, s.P99, s.Max)
	}
	return t
}

// phasesText is where the time of the run went.
func phasesText(phases []Phase) string {
	var parts []string
	for _, p := range phases {
		parts = append(parts, fmt.Sprintf("%s %s (at %s)", p.Name, short(p.Duration), short(p.Start)))
	}
	return strings.Join(parts, ", ")
}
