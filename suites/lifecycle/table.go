package lifecycle

import (
	"fmt"
	"io"
	"time"
)

// Table prints when things happened in the recordings, from the earliest to the
// latest, beside a run.
func Table(w io.Writer, recorded []Run, got Run) {
	for _, l := range got {
		fmt.Fprintf(w, "\n%-10s %8s %19s\n", l.Name, "this", "recorded")
		mine, names := named(l)
		var plays []map[name]Event
		for _, r := range recorded {
			one, _ := r.life(l.Name)
			events, _ := named(one)
			plays = append(plays, events)
		}
		for _, n := range names {
			fmt.Fprintf(w, "%18.3fs %19s  %s\n", mine[n].At.Seconds(), span(plays, n), n)
		}
	}
}

func span(plays []map[name]Event, n name) string {
	var low, high time.Duration
	times := 0
	for _, p := range plays {
		e, ok := p[n]
		if !ok {
			continue
		}
		if times == 0 {
			low, high = e.At, e.At
		}
		low, high = min(low, e.At), max(high, e.At)
		times++
	}
	if times == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f-%.3fs", low.Seconds(), high.Seconds())
}
