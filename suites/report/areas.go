package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/plumbline/plumbline/suites/verdict"
)

// countsOf are a rollout's; of one that was recorded before there were any, those of its sample.
func countsOf(s verdict.Series) []verdict.Bin {
	if len(s.Counts) > 0 {
		return s.Counts
	}
	all := map[string]*verdict.Bin{}
	var order []string
	for _, p := range s.Points {
		t := math.Floor(p.T/verdict.BinWidth) * verdict.BinWidth
		key := fmt.Sprintf("%.1f %s", t, p.Node)
		if all[key] == nil {
			all[key] = &verdict.Bin{T: t, Node: p.Node}
			order = append(order, key)
		}
		switch b := all[key]; {
		case p.Class.Harness():
		case p.Class.Lost():
			b.Lost++
		case p.Class.Slow():
			b.Slow++
		case p.Class == verdict.OKFromTerminating:
			b.Terminating++
		default:
			b.Answered++
		}
	}
	out := make([]verdict.Bin, len(order))
	for i, key := range order {
		out[i] = *all[key]
	}
	return out
}

// areasOf are the stacked counts of one node, from the bottom: answered, by a terminating pod, late,
// lost.
func areasOf(counts []verdict.Bin, node string, most, top int, x axis) []area {
	kinds := []struct {
		class, title string
		of           func(verdict.Bin) int
	}{
		{"ok", "answered", func(b verdict.Bin) int { return b.Answered }},
		{"term", "answered by a terminating pod", func(b verdict.Bin) int { return b.Terminating }},
		{"late", "answered late", func(b verdict.Bin) int { return b.Slow }},
		{"lost", "lost", func(b verdict.Bin) int { return b.Lost }},
	}
	paths, sums := make([]strings.Builder, len(kinds)), make([]int, len(kinds))
	bottom := float64(top + areaHeight)
	for _, b := range counts {
		if b.Node != node {
			continue
		}
		y := bottom
		left, right := x.pos(b.T), x.pos(b.T+verdict.BinWidth)
		for i, k := range kinds {
			n := k.of(b)
			if n == 0 {
				continue
			}
			h := float64(n) / float64(most) * areaHeight
			y -= h
			fmt.Fprintf(&paths[i], "M%.1f %.1fh%.1fv%.1fH%.1fz", left, y, max(right-left-0.4, 0.4), h, left)
			sums[i] += n
		}
	}
	var out []area
	for i, k := range kinds {
		if sums[i] > 0 {
			out = append(out, area{k.class, paths[i].String(), fmt.Sprintf("%d %s", sums[i], k.title)})
		}
	}
	return out
}
