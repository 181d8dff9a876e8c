package verdict

import (
	"maps"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// minBridge is the shortest gap between two losses that separates windows.
const minBridge = 250 * time.Millisecond

// windows are the losses and slow answers per LB target node, bridged, and the runs of
// them without a prompt answer between over all nodes. What did not get beyond the balancer is
// of no node, whichever it would have gone to. Times are the planned ones: a late probe does
// not move a window.
func windows(out []outcome, s Settings, tl *timeline.Timeline, rel func(int64) float64) (nodes, outages []Window) {
	byNode := map[string][]outcome{}
	var told []outcome // what says something about the dataplane
	for _, o := range out {
		if o.class.Harness() {
			continue
		}
		told = append(told, o)
		byNode[o.node] = append(byNode[o.node], o)
	}
	byNode[""] = told
	gap := bridge(s, tl)
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		here := func(o outcome) bool { return o.touched() && o.place() == node }
		nodes = append(nodes, split(byNode[node], node, here, rel, func(prev, next outcome, _ bool) bool {
			return next.Intended-prev.Intended <= gap.Nanoseconds()
		})...)
	}
	for _, w := range split(told, "", outcome.touched, rel, func(_, _ outcome, between bool) bool { return !between }) {
		if w.Lost+w.Slow > 1 {
			outages = append(outages, w)
		}
	}
	return nodes, outages
}

// place is the node of an attempt, or none for what did not get beyond the balancer.
func (o outcome) place() string {
	if o.cause.Hop() == HopBalancer {
		return ""
	}
	return o.node
}

// bridge is five times the mean distance of two attempts that meet the same
// node: below it, a success between two losses does not show that the node
// had recovered.
func bridge(s Settings, tl *timeline.Timeline) time.Duration {
	n := len(s.Nodes)
	if n == 0 {
		n = max(1, len(tl.Known(record.KindServer)))
	}
	if s.Rate <= 0 {
		return minBridge
	}
	return max(minBridge, time.Duration(5*float64(n)/s.Rate*float64(time.Second)))
}

// split cuts a series of outcomes into windows. same says whether the next loss or slow
// answer belongs to the window of the previous one; between tells it whether a prompt
// answer lies between them.
func split(v []outcome, node string, touched func(outcome) bool, rel func(int64) float64, same func(prev, next outcome, between bool) bool) []Window {
	var ws []Window
	first, last := -1, -1
	flush := func() {
		if first >= 0 {
			ws = append(ws, window(v, first, last, node, touched, rel))
		}
	}
	for i, o := range v {
		if !touched(o) {
			continue
		}
		if first < 0 || !same(v[last], o, last < i-1) {
			flush()
			first = i
		}
		last = i
	}
	flush()
	return ws
}

func window(v []outcome, first, last int, node string, touched func(outcome) bool, rel func(int64) float64) Window {
	w := Window{
		Node: node, Classes: map[Class]int{}, Causes: map[Cause]int{}, Of: last - first + 1,
		Start: rel(v[first].Intended), End: rel(v[last].Intended),
	}
	w.OuterStart, w.OuterEnd = w.Start, w.End
	// The neighbour may be of another window: only a prompt answer is an edge.
	for i := first - 1; i >= 0; i-- {
		if v[i].prompt() {
			w.OuterStart = rel(v[i].Intended)
			break
		}
	}
	for i := last + 1; i < len(v); i++ {
		if v[i].prompt() {
			w.OuterEnd = rel(v[i].Intended)
			break
		}
	}
	for _, o := range v[first : last+1] {
		if !touched(o) {
			continue
		}
		w.Classes[o.class]++
		w.Causes[o.cause]++
		if o.class.Lost() {
			w.Lost++
		} else {
			w.Slow++
		}
	}
	return w
}
