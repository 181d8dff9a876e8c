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

// drawing is the time line of one rollout, laid out: the template only writes it down. Lanes
// share the x axis and stand below their node; t = 0 is the first transition.
type drawing struct {
	Width, Height int
	Label         string   // what it shows, for who does not see it
	Zero          string   // x of t=0; empty if not in sight
	Marks         []mark   // later transitions, and faults that stay
	Ticks         []mark   // of the axis
	Heads         []head   // nodes
	Lanes         []lane   //
	Gaps          []gap    // losses
	Told          []string // the same in words, in the order of time
}

type mark struct{ X, Text string }

type head struct {
	Y    int
	Text string
}

// lane is one thing's states, or the requests to one node.
type lane struct {
	Y, Height int
	Label     string
	Bars      []bar
	Areas     []area
}

// TextY is the base line of a lane's texts.
func (l lane) TextY() int { return l.Y + l.Height/2 + 4 }

// bar is a state.
type bar struct {
	X, W  string
	Class string // good, part, idle
	Text  string // inside; empty where there is no room
	Title string
}

// TextX is where the text begins.
func (b bar) TextX() string {
	var x float64
	if _, err := fmt.Sscan(b.X, &x); err != nil {
		return b.X
	}
	return fmt.Sprintf("%.1f", x+5)
}

// area is what became of requests, stacked: one path for each outcome.
type area struct{ Class, Path, Title string }

// gap is a stretch in which requests were lost or answered late at one node.
type gap struct {
	X, W, Middle string
	Y, Height    int
	TextY        int
	Class        string // lost or slow
	Text         string
}

// Measures of a drawing, in its own units.
const (
	drawWidth  = 1000
	drawLeft   = 130
	drawRight  = drawWidth - 10
	axisHeight = 22
	headHeight = 20
	laneHeight = 20
	barHeight  = 15
	areaHeight = 36
	gapHeight  = 18
	letter     = 6.4 // of a label inside a bar
)

// draw lays out a rollout; nil if nothing was recorded.
func draw(v verdict.Rollout) *drawing {
	s := v.Series
	if s.To <= s.From {
		return nil
	}
	x := axis{s.From, s.To}
	d := &drawing{Width: drawWidth, Height: axisHeight}
	counts := countsOf(s)
	most := 1
	for _, c := range counts {
		most = max(most, c.Answered+c.Terminating+c.Slow+c.Lost)
	}
	for _, node := range nodesOf(v, counts) {
		d.node(v, node, counts, most, x)
	}
	step := tickStep(s.To - s.From)
	for t := math.Ceil(s.From/step) * step; t <= s.To; t += step {
		d.Ticks = append(d.Ticks, mark{x.at(t), strings.Replace(num(t)+" s", "-0 s", "0 s", 1)})
	}
	if s.From <= 0 && s.To >= 0 {
		d.Zero = x.at(0)
	}
	for _, m := range marksOf(v) {
		d.Marks = append(d.Marks, mark{x.at(m.at), m.text + " at " + at(m.at)})
	}
	d.Told = told(v)
	d.Label = label(v)
	return d
}

// node adds the lanes of one node: what its pods are, whether it forwards and what its health
// check says, what the balancer holds of it, and the requests that went there. Of no node they are
// the requests that met no server, and the balancer's process.
func (d *drawing) node(v verdict.Rollout, node string, counts []verdict.Bin, most int, x axis) {
	top := d.Height
	name := render.Text(node)
	if node == "" {
		name = "no node"
	}
	d.Heads = append(d.Heads, head{d.Height + 14, name})
	d.Height += headHeight
	s := v.Series
	for _, l := range lanesOf(s, node) {
		d.lane(l.label, bars(l.states, s, x))
	}
	if areas := areasOf(counts, node, most, d.Height, x); len(areas) > 0 {
		d.Lanes = append(d.Lanes, lane{Y: d.Height, Height: areaHeight, Label: "requests", Areas: areas})
		d.Height += areaHeight + 4
	}
	d.gaps(v, node, top, x)
	d.Height += 4
}

func (d *drawing) lane(label string, bars []bar) {
	if len(bars) == 0 {
		return
	}
	d.Lanes = append(d.Lanes, lane{Y: d.Height, Height: barHeight, Label: label, Bars: bars})
	d.Height += laneHeight
}

// gaps shades where requests were lost or late, and says over how long, and of what. Texts that would
// meet stand on lines of their own.
func (d *drawing) gaps(v verdict.Rollout, node string, top int, x axis) {
	bottom := d.Height
	var ends []float64 // of the last text on each line
	for _, w := range v.NodeWindows {
		if w.Node != node {
			continue
		}
		g := gap{X: x.at(w.Start), W: x.wide(w.Start, w.End), Y: top + headHeight, Height: bottom - top - headHeight, Class: "lost", Text: gapText(v.Series, w)}
		if w.Lost == 0 {
			g.Class = "slow"
		}
		half := float64(len(g.Text)) * letter / 2
		middle := min(max((x.pos(w.Start)+x.pos(w.End))/2, half), drawWidth-half)
		line := slices.IndexFunc(ends, func(end float64) bool { return end < middle-half-letter })
		if line < 0 {
			line, ends = len(ends), append(ends, 0)
		}
		ends[line] = middle + half
		g.Middle, g.TextY = fmt.Sprintf("%.1f", middle), bottom+12+line*gapHeight
		d.Gaps = append(d.Gaps, g)
	}
	d.Height += len(ends) * gapHeight
}

// gapText says what a window is.
func gapText(s verdict.Series, w verdict.Window) string {
	what := fmt.Sprintf("%d of %d lost", w.Lost, w.Of)
	if w.Lost == 0 {
		what = fmt.Sprintf("%d of %d late", w.Slow, w.Of)
	}
	text := fmt.Sprintf("%s in %.2f s", what, w.Inner())
	if w.Inner() < 0.01 {
		text = what
	}
	if w.Node == "" {
		text += " " + placeOf(w)
	}
	middle := (w.Start + w.End) / 2
	if w.Node != "" && stateAt(s, record.KindServer, w.Node, middle) == "UP" {
		if f := stateAt(s, record.KindNodePort, w.Node, middle); f != "" && f != "ok" {
			text += ": the balancer still sends, the node does not forward"
		}
	}
	return text
}

// moment is something that happens once.
type moment struct {
	at   float64
	text string
}

// marksOf are what begins or ends behind t=0.
func marksOf(v verdict.Rollout) []moment {
	var all []moment
	for i, t := range v.Transitions {
		if i > 0 {
			all = append(all, moment{t.At, fmt.Sprintf("%s %s", t.Kind, render.Text(t.State))})
		}
	}
	for _, c := range v.Series.Changes {
		if c.Kind == record.KindAct && (c.State == record.ActCut || c.State == record.ActHealed) {
			all = append(all, moment{c.T, render.Joined(" ", render.Text(c.State), render.Text(c.Node))})
		}
	}
	return all
}

type axis struct{ from, to float64 }

func (a axis) pos(t float64) float64 {
	t = min(max(t, a.from), a.to)
	return drawLeft + (t-a.from)/(a.to-a.from)*(drawRight-drawLeft)
}

func (a axis) at(t float64) string { return fmt.Sprintf("%.1f", a.pos(t)) }

// wide is a stretch's width, at least a hair.
func (a axis) wide(from, to float64) string {
	return fmt.Sprintf("%.1f", max(a.pos(to)-a.pos(from), 2))
}

func tickStep(span float64) float64 {
	for _, s := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300} {
		if span/s <= 14 {
			return s
		}
	}
	return 600
}

// nodesOf are the nodes of which anything is known, and at the end none, where requests got to no
// node or the balancer's process is known.
func nodesOf(v verdict.Rollout, counts []verdict.Bin) []string {
	var names []string
	none := false
	add := func(name string, is bool) {
		if name == "" {
			none = none || is
		} else if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, c := range v.Series.Changes {
		add(c.Node, c.Kind == record.KindLB)
	}
	for _, c := range counts {
		add(c.Node, true)
	}
	for _, w := range v.NodeWindows {
		add(w.Node, true)
	}
	slices.Sort(names)
	if none {
		names = append(names, "")
	}
	return names
}
