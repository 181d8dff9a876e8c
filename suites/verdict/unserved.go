package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// checkFailed: of a node that should have been UP the health check did not tell so.
func (e evidence) checkFailed() bool {
	return slices.ContainsFunc(wronglyDown(e.tl, e.Start, e.s), func(node string) bool {
		return !e.tl.Steady(record.KindHCNP, node, e.Start-e.s.told(), e.Start, timeline.Healthy)
	})
}

// wronglyDown are the nodes that the load balancer does not hold UP though a pod of theirs has been
// ready for as long as it takes to be told so; none within that time of the balancer's start.
func wronglyDown(tl *timeline.Timeline, t int64, s Settings) []string {
	since := t - s.told()
	started := func(e record.Event) bool { return e.At > since && e.At <= t }
	if s.Rise <= 0 || !s.Local || slices.ContainsFunc(tl.Starts(timeline.Start{Kind: record.KindLB, State: record.LBStart}), started) {
		return nil
	}
	var down []string
	for _, node := range tl.Known(record.KindServer) {
		if tl.At(record.KindServer, node, t) != timeline.Up && tl.Ready(node, since, t) {
			down = append(down, node)
		}
	}
	return down
}

// told is how long it takes at most, in ns, until a pod that is ready is known to the load balancer.
func (s Settings) told() int64 { return (heardWithin + s.Rise).Nanoseconds() }

// unserved says of requests that met no server that there should have been one; empty: of none.
func unserved(out []outcome, tl *timeline.Timeline, s Settings) string {
	n, nodes := 0, map[string]bool{}
	for _, o := range out {
		if o.cause != CauseNoServer && o.cause != CauseCheckFailed {
			continue
		}
		down := wronglyDown(tl, o.Start, s)
		if len(down) > 0 {
			n++
		}
		for _, node := range down {
			nodes[node] = true
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d requests met no server UP, though a pod on %s had been ready for %.1f s and more", n, strings.Join(slices.Sorted(maps.Keys(nodes)), ", "), seconds(s.told()))
}
