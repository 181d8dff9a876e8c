package conformance

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

// timeline is what the run spent its time on: one phase after another, without gaps.
// It is not for concurrent use.
type timeline struct {
	began  time.Time // of the first phase
	phases []conformance.Phase
}

// next begins a phase, and ends the one before.
func (l *timeline) next(name string) { l.nextAt(time.Now(), name) }

func (l *timeline) nextAt(now time.Time, name string) {
	if len(l.phases) == 0 {
		l.began = now
	}
	l.phases = append(l.until(now), conformance.Phase{Name: name, Start: conformance.Duration(now.Sub(l.began).Round(time.Millisecond))})
}

// until are the phases so far, of which the last goes on.
func (l *timeline) until(now time.Time) []conformance.Phase {
	out := slices.Clone(l.phases)
	if n := len(out); n > 0 {
		out[n-1].Duration = conformance.Duration(now.Sub(l.began).Round(time.Millisecond)) - out[n-1].Start
	}
	return out
}
