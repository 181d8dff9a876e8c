package verdict

import (
	"math"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// transitions are what the rollout was about: each has what was lost and slow from it until the
// next one.
func transitions(out []outcome, tl *timeline.Timeline, s Settings, outages []Window, rel func(int64) float64) []Transition {
	starts := tl.Starts(s.Starts)
	all := make([]Transition, len(starts))
	for i, e := range starts {
		all[i] = Transition{At: rel(e.At), Kind: e.Kind, State: e.State, Node: e.Node, Pod: e.Pod}
		if s.Cluster && e.Pod != "" {
			all[i].Stale = stale(out, tl, s, e.Pod, e.At)
		}
	}
	for _, o := range out {
		i := of(starts, o.Start, o.waited(s))
		switch {
		case i < 0 || o.class.Harness():
		case o.class.Lost():
			all[i].Lost++
		case o.slow():
			all[i].Slow++
		}
	}
	for _, w := range outages {
		for i := range all {
			if w.End >= all[i].At && (i+1 == len(all) || w.Start < all[i+1].At) {
				all[i].Outage = max(all[i].Outage, w.Inner())
			}
		}
	}
	return all
}

// of is the transition that something belongs to: the last that began before it did, or the first if
// that began before its end; -1: none.
func of(starts []record.Event, start, end int64) int {
	last := -1
	for i, e := range starts {
		if e.At <= start || i == 0 && e.At <= end {
			last = i
		}
	}
	return last
}

// stale is how long after a pod's deletion nodes gave requests to it.
func stale(out []outcome, tl *timeline.Timeline, s Settings, pod string, at int64) map[string]float64 {
	by := map[string]float64{}
	for _, o := range out {
		if o.node == "" || o.Start < at || o.class.Harness() {
			continue
		}
		after := 0.0 // a node that was asked, and did not send to it
		if o.Pod == pod || o.cause == CauseStale && slices.Equal(unheardOf(tl, o, s), []string{pod}) {
			after = seconds(o.Start - at)
		}
		by[o.node] = max(by[o.node], after)
	}
	return by
}

// relistWithin is how long clients of the API may wait after an outage before they ask again
// (client-go's reflector: up to 30 s, and as much again by chance), and how long until rules
// follow.
const relistWithin = 62 * time.Second

// unheardOf are the pods that were deleted, and had ended, while the attempt's node was kept from the
// API, as far as that may matter to it.
func unheardOf(tl *timeline.Timeline, o outcome, s Settings) []string {
	at := o.waited(s)
	if o.conn == nil || o.conn.DialMS < 0 { // a pod that lives answers a SYN at once
		at = o.Start
	}
	cut, since := tl.Cut(o.node, o.Start, relistWithin)
	if !cut {
		return nil
	}
	var pods []string
	for _, e := range tl.Starts(timeline.PodDeleted()) {
		if e.At > since && e.At < at && ended(tl, e.Pod, at) {
			pods = append(pods, e.Pod)
		}
	}
	return pods
}

// ended: a pod is gone, or does not answer its own node any more.
func ended(tl *timeline.Timeline, pod string, at int64) bool {
	for _, s := range tl.Changing(record.KindDirect, pod, at) {
		if s != "" && s != timeline.Forwards {
			return true
		}
	}
	return tl.At(record.KindPod, pod, at) == timeline.Gone
}

// waited is until when an attempt was under way and its client waited.
func (o outcome) waited(s Settings) int64 { return min(o.End, o.Start+s.Timeout.Nanoseconds()) }

// except counts what is the scenario's own doing.
func except(out []outcome, tl *timeline.Timeline, host moments, s Settings) Excepted {
	var all Excepted
	cells := map[cellKey]*staleCell{}
	for _, o := range out {
		if slices.Contains(s.But.Causes, CauseStale) {
			countStale(cells, o, tl, s)
		}
	}
	starts := tl.Starts(s.Starts)
	for _, o := range out {
		i := of(starts, o.Start, o.waited(s))
		if i < 0 || !slices.Contains(s.But.Causes, o.cause) {
			continue
		}
		if o.cause != CauseRemembered && o.Start > s.But.until(starts[i].At, tl) { // a kernel remembers for longer
			continue
		}
		if o.cause == CauseStale && !cells[cellKey{o.node, o.Start / int64(time.Second)}].take() {
			continue
		}
		sound := o.sound(host, s)
		if o.class.Lost() {
			if all.Causes == nil {
				all.Causes = map[Cause]int{}
			}
			all.Causes[o.cause]++
		}
		switch {
		case o.class.Lost() && sound:
			all.Lost++
			all.LostSound++
		case o.class.Lost():
			all.Lost++
		case o.slow() && sound && MayBeDataplane(o.cause):
			all.SlowSound++
		}
	}
	return all
}

// until is the end of what a transition excuses.
func (e Exceptions) until(at int64, tl *timeline.Timeline) int64 {
	end := int64(math.MaxInt64)
	if e.Within > 0 {
		end = at + e.Within.Nanoseconds()
	}
	for _, a := range tl.Starts(timeline.Start{Kind: record.KindAct, State: record.ActSettled}) {
		if a.At >= at {
			return min(end, a.At)
		}
	}
	return end
}

// staleCell is a second of a node that has not heard of a pod's end: of what it was given, the part
// that its endpoints were told of that pod is lost, and chance adds a little.
type staleCell struct {
	given, taken int
	part         float64 // of the node's endpoints, those that have ended unheard of
}

func countStale(cells map[cellKey]*staleCell, o outcome, tl *timeline.Timeline, s Settings) {
	gone := unheardOf(tl, o, s)
	if o.node == "" || o.class.Harness() || len(gone) == 0 {
		return
	}
	_, since := tl.Cut(o.node, o.Start, relistWithin)
	k := cellKey{o.node, o.Start / int64(time.Second)}
	if cells[k] == nil {
		cells[k] = &staleCell{}
	}
	cells[k].given++
	cells[k].part = max(cells[k].part, float64(len(gone))/float64(max(1, len(tl.Live(since)))))
}

// take excuses one more, if that may be: up to four standard deviations above the part, and two.
func (c *staleCell) take() bool {
	if c == nil {
		return false
	}
	n := float64(c.given)
	most := n*c.part + 4*math.Sqrt(n*c.part*(1-c.part)) + 2
	c.taken++
	return float64(c.taken) <= most
}
