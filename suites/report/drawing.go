package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// drawing is the time line of one rollout, laid out: the template only writes
// it down. Lanes share the x axis; t = 0 is the first transition.
type drawing struct {
	Width, Height, Left, Right int
	Zero                       string // x of t=0; empty if not in sight
	Marks                      []mark // later transitions, and faults that stay
	Ticks                      []tick
	Lanes                      []lane
}

// LabelX is where lane labels end.
func (d *drawing) LabelX() int { return d.Left - 8 }

type tick struct {
	X    string
	Text string
}

type mark struct{ X, Title string }

type lane struct {
	Y, Mid, Height int
	Label          string
	Bars           []bar  // states
	Shades         []bar  // windows of losses
	Dots           []dots // attempts
}

// TextY is the base line of the label.
func (l lane) TextY() int { return l.Mid + 4 }

// BarY is the top of a state's bar.
func (l lane) BarY() int { return l.Mid - 5 }

type bar struct {
	X, W  string
	Class string // good, part, bad, idle, window, slowed, outage
	Title string
}

// dots are all attempts of one group in a lane, drawn as one path of points.
type dots struct {
	Class string
	Path  string
	Title string
}

const (
	drawWidth  = 1100
	drawLeft   = 210
	drawRight  = drawWidth - 10
	laneTop    = 22
	laneHeight = 18
)

// draw lays out a rollout; nil if nothing was recorded.
func draw(v verdict.Rollout) *drawing {
	s := v.Series
	if s.To <= s.From {
		return nil
	}
	x := axis{from: s.From, to: s.To}
	d := &drawing{Width: drawWidth, Left: drawLeft, Right: drawRight}
	d.stateLanes(s, x)
	d.requestLanes(v, x)
	d.Height = laneTop + len(d.Lanes)*laneHeight + 4
	step := tickStep(s.To - s.From)
	for t := math.Ceil(s.From/step) * step; t <= s.To; t += step {
		d.Ticks = append(d.Ticks, tick{x.at(t), num(t) + " s"})
	}
	if s.From <= 0 && s.To >= 0 {
		d.Zero = x.at(0)
	}
	d.marks(v, x)
	return d
}

// marks are what begins or ends behind t=0.
func (d *drawing) marks(v verdict.Rollout, x axis) {
	for i, t := range v.Transitions {
		if i > 0 {
			d.Marks = append(d.Marks, mark{x.at(t.At), fmt.Sprintf("%s %s at %.2f s", t.Kind, render.Text(t.State), t.At)})
		}
	}
	for _, c := range v.Series.Changes {
		if c.Kind == record.KindAct && (c.State == record.ActCut || c.State == record.ActHealed) {
			d.Marks = append(d.Marks, mark{x.at(c.T), strings.TrimSpace(fmt.Sprintf("%s %s", render.Text(c.State), render.Text(c.Node))) + fmt.Sprintf(" at %.2f s", c.T)})
		}
	}
}

type axis struct{ from, to float64 }

func (a axis) pos(t float64) float64 {
	t = min(max(t, a.from), a.to)
	return drawLeft + (t-a.from)/(a.to-a.from)*(drawRight-drawLeft)
}

func (a axis) at(t float64) string { return fmt.Sprintf("%.1f", a.pos(t)) }

// bar spans from..to, at least a hair wide.
func (a axis) bar(from, to float64, class, title string) bar {
	w := max(a.pos(to)-a.pos(from), 1)
	return bar{X: a.at(from), W: fmt.Sprintf("%.1f", w), Class: class, Title: title}
}

func tickStep(span float64) float64 {
	for _, s := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300} {
		if span/s <= 14 {
			return s
		}
	}
	return 600
}

func (d *drawing) add(label string) *lane {
	y := laneTop + len(d.Lanes)*laneHeight
	d.Lanes = append(d.Lanes, lane{Y: y, Mid: y + laneHeight/2, Height: laneHeight - 4, Label: label})
	return &d.Lanes[len(d.Lanes)-1]
}

// stateLanes: what pods, slices, nodes and the load balancer said, one lane
// per thing, in the order in which a change travels.
func (d *drawing) stateLanes(s verdict.Series, x axis) {
	for _, k := range []struct {
		kind  record.Kind
		label string
		style func(string) string
	}{
		{record.KindPod, "pod", podStyle},
		{record.KindEndpoint, "endpoint", endpointStyle},
		{record.KindDirect, "answers its node", wanted("ok")},
		{record.KindNodePort, "forwards", wanted("ok")},
		{record.KindServed, "answers the balancer", wanted("ok")},
		{record.KindHCNP, "health port", wanted("200")},
		{record.KindServer, "balancer", wanted("UP")},
		{record.KindLB, "balancer's process", processStyle},
	} {
		for _, name := range namesOf(s.Changes, k.kind) {
			l := d.add(strings.TrimSpace(k.label + " " + render.Text(name)))
			l.Bars = bars(s, k.kind, name, k.style, x)
		}
	}
}

func nameOf(c verdict.Change) string {
	if c.Kind == record.KindPod || c.Kind == record.KindEndpoint || c.Kind == record.KindDirect {
		return c.Pod
	}
	return c.Node // none of what the balancer does itself
}

func namesOf(changes []verdict.Change, kind record.Kind) []string {
	var names []string
	for _, c := range changes {
		if c.Kind == kind && !slices.Contains(names, nameOf(c)) {
			names = append(names, nameOf(c))
		}
	}
	if kind != record.KindPod && kind != record.KindEndpoint {
		slices.Sort(names) // nodes alike in every lane; pods as they came
	}
	return names
}

func bars(s verdict.Series, kind record.Kind, name string, style func(string) string, x axis) []bar {
	var mine []verdict.Change
	for _, c := range s.Changes {
		if c.Kind == kind && nameOf(c) == name {
			mine = append(mine, c)
		}
	}
	var out []bar
	for i, c := range mine {
		to := s.To
		if i+1 < len(mine) {
			to = mine[i+1].T
		}
		if class := style(c.State); class != "" && to >= s.From && c.T <= s.To {
			out = append(out, x.bar(c.T, to, class, fmt.Sprintf("%s from %.2f s", render.Text(c.State), c.T)))
		}
	}
	return out
}

func wanted(good string) func(string) string {
	return func(s string) string {
		switch s {
		case good:
			return "good"
		case "": // not known
			return ""
		}
		return "bad"
	}
}

func processStyle(s string) string {
	if s == record.LBExit {
		return "bad"
	}
	return "good"
}

func podStyle(s string) string {
	return map[string]string{"added": "idle", "unready": "idle", "ready": "good", "deleting": "part"}[s]
}

func endpointStyle(s string) string {
	flags := strings.Split(s, ",")
	switch {
	case s == "gone":
		return ""
	case slices.Contains(flags, "ready"):
		return "good"
	case slices.Contains(flags, "serving"):
		return "part"
	}
	return "bad"
}

// requestLanes: the attempts by the node they were sent to, losses shaded.
func (d *drawing) requestLanes(v verdict.Rollout, x axis) {
	byNode := map[string][]verdict.Point{}
	var names []string
	for _, p := range v.Series.Points {
		if _, ok := byNode[p.Node]; !ok {
			names = append(names, p.Node)
		}
		byNode[p.Node] = append(byNode[p.Node], p)
	}
	slices.Sort(names)
	for _, node := range names {
		label := "requests to " + render.Text(node)
		if node == "" {
			label = "requests to no server"
		}
		l := d.add(label)
		for _, w := range v.NodeWindows {
			if w.Node == node && w.Lost > 0 {
				l.Shades = append(l.Shades, shade(w, x, "window"))
			} else if w.Node == node {
				l.Shades = append(l.Shades, shade(w, x, "slowed"))
			}
		}
		l.Dots = paths(byNode[node], x, l.Mid)
	}
	if len(v.Outages) > 0 {
		l := d.add("no answer at all")
		for _, w := range v.Outages {
			l.Shades = append(l.Shades, shade(w, x, "outage"))
		}
	}
}

func shade(w verdict.Window, x axis, class string) bar {
	what := fmt.Sprintf("%d of %d lost", w.Lost, w.Of)
	if w.Lost == 0 {
		what = fmt.Sprintf("%d of %d slow", w.Slow, w.Of)
	}
	return x.bar(w.Start, w.End, class, fmt.Sprintf("%s, %.2f s to %.2f s", what, w.Start, w.End))
}

// paths draws each group of outcomes as zero-length strokes with round ends.
func paths(points []verdict.Point, x axis, mid int) []dots {
	var out []dots
	for i, g := range groups() {
		var path strings.Builder
		n := map[string]int{}
		for _, p := range points {
			if groupOf(p.Class) == g.Class {
				fmt.Fprintf(&path, "M%s %dh0", x.at(p.T), mid+[]int{4, 4, 0, -4, -4, -4, 0}[i])
				n[string(p.Class)]++
			}
		}
		if path.Len() > 0 {
			out = append(out, dots{Class: g.Class, Path: path.String(), Title: list(sorted(n))})
		}
	}
	return out
}

// group is a colour of the requests lanes.
type group struct{ Class, Text string }

func groups() []group {
	return []group{
		{"ok", "answered"},
		{"term", "answered by a terminating pod"},
		{"slow", "answered late"},
		{"cut", "refused, reset or closed"},
		{"late", "timed out"},
		{"wrong", "wrong or broken answer"},
		{"harness", "the harness's own failure"},
	}
}

func groupOf(c verdict.Class) string {
	switch {
	case c.Harness():
		return "harness"
	case c.Slow():
		return "slow"
	case c == verdict.OK:
		return "ok"
	case c == verdict.OKFromTerminating:
		return "term"
	case c == verdict.DialTimeout, c == verdict.RespTimeout:
		return "late"
	case c == verdict.BadBody, c == verdict.ShortBody, c == verdict.HTTP4xx, c == verdict.HTTP5xxApp,
		c == verdict.HTTP5xxLB, c == verdict.WrongBackend, c == verdict.Unclassified:
		return "wrong"
	}
	return "cut"
}
