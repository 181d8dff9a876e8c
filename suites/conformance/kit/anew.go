package kit

import (
	"context"
	"slices"
)

// A behaviour that could not be judged for the host's or the client's sake is made anew, as a rollout is that the
// harness spoiled: so often each, and of a run so many in all, for a host where more than that goes wrong is not
// fit. One that failed never is.
const (
	anew      = 2
	anewInAll = 20
)

// untilJudged is a behaviour's result r, or that of what is made anew, which says why it was.
func (e *Env) untilJudged(ctx context.Context, r Result) Result {
	b, f := r.Behaviour, r.Family
	var told []string
	for len(told) < anew && r.unsound && ctx.Err() == nil && e.mayRepeat() {
		told = append(told, "made anew, for it could not be judged: "+r.Reason)
		before := r
		r = e.run(ctx, b, f)
		r.Attempts, r.Took, r.Delay = before.Attempts+r.Attempts, before.Took+r.Took, max(before.Delay, r.Delay)
		r.Evidence = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before.Evidence, r.Evidence))))
	}
	r.Said = slices.Concat(told, r.Said)
	return r
}

// mayRepeat counts what is made anew.
func (e *Env) mayRepeat() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.repeats++
	return e.repeats <= anewInAll
}
