package verdict

import (
	"slices"

	"github.com/plumbline/plumbline/suites/timeline"
)

// transitions are what the rollout was about: each has what was lost and slow from it until the
// next one.
func transitions(out []outcome, tl *timeline.Timeline, s Settings, outages []Window, rel func(int64) float64) []Transition {
	var all []Transition
	starts := tl.Starts(s.Starts)
	for i, e := range starts {
		t := Transition{At: rel(e.At), Kind: e.Kind, State: e.State, Node: e.Node, Pod: e.Pod}
		until := func(at int64) bool { return i+1 == len(starts) || at < starts[i+1].At }
		for _, o := range out {
			switch {
			case o.Start < e.At || !until(o.Start) || o.class.Harness():
			case o.class.Lost():
				t.Lost++
			case o.slow():
				t.Slow++
			}
		}
		for _, w := range outages {
			if w.Start >= t.At && (i+1 == len(starts) || w.Start < rel(starts[i+1].At)) {
				t.Outage = max(t.Outage, w.Inner())
			}
		}
		if s.Cluster && e.Pod != "" {
			t.Stale = stale(out, tl, e.Pod, e.At)
		}
		all = append(all, t)
	}
	return all
}

// stale is how long after a pod's deletion nodes gave requests to it.
func stale(out []outcome, tl *timeline.Timeline, pod string, at int64) map[string]float64 {
	by := map[string]float64{}
	for _, o := range out {
		if o.node == "" || o.Start < at || o.class.Harness() {
			continue
		}
		after := 0.0 // a node that was asked, and did not send to it
		if o.Pod == pod || o.cause == CauseStale && slices.Equal(unheardOf(tl, o), []string{pod}) {
			after = seconds(o.Start - at)
		}
		by[o.node] = max(by[o.node], after)
	}
	return by
}

// relistWithin is how long clients of the API may wait after an outage before they ask again
// (client-go's reflector: up to 30 s, and as much again by chance), and how long until rules
// follow.
const relistWithin = 62e9

// unheardOf are the pods that were deleted while the attempt's node was kept from the API, as far
// as that may matter to it.
func unheardOf(tl *timeline.Timeline, o outcome) []string {
	cut, since := tl.Cut(o.node, o.Start, relistWithin)
	if !cut {
		return nil
	}
	var pods []string
	for _, e := range tl.Starts(timeline.PodDeleted()) {
		if e.At > since && e.At < o.End {
			pods = append(pods, e.Pod)
		}
	}
	return pods
}

// soundCauses are those of losses at moments for which the harness vouches.
func soundCauses(out []outcome, host moments, s Settings) map[Cause]int {
	by := map[Cause]int{}
	for _, o := range out {
		if o.class.Lost() && o.sound(host, s) {
			by[o.cause]++
		}
	}
	return by
}
