package verdict

import (
	"cmp"
	"math"
	"slices"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// series keeps what a drawing needs: every attempt that was not plainly good,
// every n-th of the others, and the changes of state in between.
func series(out []outcome, events []record.Event, samples int, rel func(int64) float64) Series {
	s := Series{Points: []Point{}, Changes: []Change{}} // [] in JSON, not null
	if len(out) == 0 {
		return s
	}
	from, to := out[0].Intended, out[len(out)-1].Intended
	s.From, s.To = rel(from), rel(to)
	plain := func(c Class) bool { return c == OK || c == OKFromTerminating }
	n := 0
	for _, o := range out {
		if plain(o.class) {
			n++
		}
	}
	step := max(1, (n+max(samples, 1)-1)/max(samples, 1))
	// Counted per node: round robin alternates, and every k-th of all would show
	// one node only.
	seen := map[string]int{}
	for _, o := range out {
		if plain(o.class) {
			seen[o.node]++
			if (seen[o.node]-1)%step != 0 {
				continue
			}
		}
		s.Points = append(s.Points, Point{
			T: rel(o.Intended), Class: o.class, Node: o.node,
			Took: seconds(o.End - o.Start), Pod: o.Pod, Cause: o.cause,
		})
	}
	s.Changes = append(s.Changes, changes(events, to, rel)...)
	s.Counts = bins(out, rel)
	return s
}

// bins count the attempts by time and node, in that order.
func bins(out []outcome, rel func(int64) float64) []Bin {
	type key struct {
		n    int
		node string
	}
	all := map[key]*Bin{}
	for _, o := range out {
		if o.class.Harness() {
			continue
		}
		k := key{int(math.Floor(rel(o.Intended) / BinWidth)), o.node}
		b := all[k]
		if b == nil {
			b = &Bin{T: math.Round(float64(k.n)*BinWidth*10) / 10, Node: k.node}
			all[k] = b
		}
		switch {
		case o.class.Lost():
			b.Lost++
		case o.class.Slow():
			b.Slow++
		case o.class == OKFromTerminating:
			b.Terminating++
		default:
			b.Answered++
		}
	}
	list := make([]Bin, 0, len(all))
	for _, b := range all {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b Bin) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.Node, b.Node)) })
	return list
}

// changes leaves out what changed nothing (the same state reported again).
func changes(events []record.Event, to int64, rel func(int64) float64) []Change {
	type key struct {
		kind      record.Kind
		node, pod string
	}
	last := map[key]string{}
	var all []Change
	for _, e := range events {
		at := timeline.ChangedAt(e)
		if at > to {
			continue
		}
		k := key{e.Kind, e.Node, e.Pod}
		if e.Kind != record.KindAct && e.Kind != record.KindLB {
			if was, ok := last[k]; ok && was == e.State {
				continue
			}
			last[k] = e.State
		}
		all = append(all, Change{T: rel(at), Kind: e.Kind, State: e.State, Node: e.Node, Pod: e.Pod})
	}
	return all
}
