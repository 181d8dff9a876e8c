package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// state is one of a thing's, from a time on.
type state struct {
	from        float64
	class, text string // class "": not known, or there is none
}

// states are one lane's.
type states struct {
	label  string
	states []state
	thing  string // whose they are, where a node may have several
}

// lanesOf are the lanes of one node, in the order in which a change travels. A second look, past the
// Service or from the balancer, has a lane only where it is not as the first.
func lanesOf(s verdict.Series, node string) []states {
	var out []states
	for _, pod := range podsOn(s, node) {
		out = append(out, states{label: "pod", thing: render.Text(pod), states: podStates(s, pod)})
	}
	forwards := statesOf(s, record.KindNodePort, node, wanted("ok", "forwards"))
	out = append(out, states{label: "node", states: forwards})
	if served := statesOf(s, record.KindServed, node, wanted("ok", "answers the balancer")); ofItsOwn(served, forwards, s.To) {
		out = append(out, states{label: "to the balancer", states: served})
	}
	for _, pod := range podsOn(s, node) {
		if direct := statesOf(s, record.KindDirect, pod, wanted("ok", "answers its node")); ofItsOwn(direct, podStates(s, pod), s.To) {
			out = append(out, states{label: "past the Service", states: direct})
		}
	}
	out = append(out,
		states{label: "health check", states: statesOf(s, record.KindHCNP, node, wanted("200", "200: send here"))},
		states{label: "balancer", states: statesOf(s, record.KindServer, node, wanted("UP", "UP: sends here"))})
	if node == "" {
		out = append(out, states{label: "its process", states: statesOf(s, record.KindLB, node, processState)})
	}
	return out
}

// podsOn are the pods of a node, in the order in which they came.
func podsOn(s verdict.Series, node string) []string {
	if node == "" { // one that has none yet gets one
		return nil
	}
	var out []string
	for _, c := range s.Changes {
		if c.Kind == record.KindPod && c.Node == node && c.Pod != "" && !slices.Contains(out, c.Pod) {
			out = append(out, c.Pod)
		}
	}
	return out
}

func nameOf(c verdict.Change) string {
	if c.Kind == record.KindPod || c.Kind == record.KindEndpoint || c.Kind == record.KindDirect {
		return c.Pod
	}
	return c.Node // none of what the balancer does itself
}

func statesOf(s verdict.Series, kind record.Kind, name string, of func(string) (class, text string)) []state {
	var out []state
	for _, c := range s.Changes {
		if c.Kind == kind && nameOf(c) == name {
			class, text := of(c.State)
			out = append(out, state{c.T, class, text})
		}
	}
	return out
}

// stateAt is a thing's state at a time; "" where it is not known.
func stateAt(s verdict.Series, kind record.Kind, name string, t float64) string {
	at := ""
	for _, c := range s.Changes {
		if c.Kind == kind && nameOf(c) == name && (c.T <= t || at == "") {
			at = c.State
		}
	}
	return at
}

// wanted is for things that have one good state; another is no fault by itself, and so has no
// colour of one.
func wanted(good, says string) func(string) (class, text string) {
	return func(s string) (string, string) {
		switch s {
		case good:
			return "good", says
		case "":
			return "", ""
		case record.FailTimeout:
			return "idle", "silent"
		case "ECONNREFUSED":
			return "idle", "refuses"
		case "503":
			return "idle", "503: do not send"
		}
		return "idle", render.Text(s)
	}
}

func processState(s string) (class, text string) {
	if s == record.LBExit {
		return "idle", "ended"
	}
	return "good", render.Text(s)
}

// podStates join what the API says of a pod and of its endpoint.
func podStates(s verdict.Series, pod string) []state {
	var out []state
	for _, c := range s.Changes {
		if c.Pod != pod || c.Kind != record.KindPod && c.Kind != record.KindEndpoint {
			continue
		}
		class, text := podState(stateBefore(s, record.KindPod, pod, c.T), stateBefore(s, record.KindEndpoint, pod, c.T))
		if n := len(out); n == 0 || out[n-1].text != text {
			out = append(out, state{c.T, class, text})
		}
	}
	return out
}

// stateBefore is the last state up to a time; "" before the first.
func stateBefore(s verdict.Series, kind record.Kind, name string, t float64) string {
	at := ""
	for _, c := range s.Changes {
		if c.Kind == kind && nameOf(c) == name && c.T <= t {
			at = c.State
		}
	}
	return at
}

func podState(pod, endpoint string) (class, text string) {
	switch pod {
	case "added":
		return "idle", "starting"
	case "unready":
		return "idle", "not ready"
	case "ready":
		return "good", "ready"
	case "deleting":
		if endpoint == "" || slices.Contains(strings.Split(endpoint, ","), "serving") {
			return "part", "terminating, still serves"
		}
		return "idle", "terminating"
	case "", "gone":
		return "", ""
	}
	return "idle", render.Text(pod)
}

// ofItsOwn: one thing is bad for a fifth of a second and more while another is good.
func ofItsOwn(a, other []state, end float64) bool {
	at := func(list []state, t float64) string {
		class := ""
		for _, s := range list {
			if s.from <= t {
				class = s.class
			}
		}
		return class
	}
	for i, s := range a {
		to := end
		if i+1 < len(a) {
			to = a[i+1].from
		}
		if s.class == "idle" && to-s.from >= 0.2 && at(other, s.from+0.1) == "good" && at(other, to-0.1) == "good" {
			return true
		}
	}
	return false
}

func bars(all []state, s verdict.Series, x axis) []bar {
	var out []bar
	for i, st := range all {
		to := s.To
		if i+1 < len(all) {
			to = all[i+1].from
		}
		from := st.from
		if i == 0 && from-s.From < 1 { // what is found at first was so before
			from = s.From
		}
		if st.class == "" || to < s.From || from > s.To {
			continue
		}
		b := bar{X: x.at(from), W: x.wide(from, to), Class: st.class, Title: fmt.Sprintf("%s from %s", st.text, at(st.from))}
		if float64(len(st.text))*letter+10 <= x.pos(to)-x.pos(from) {
			b.Text = st.text
		}
		out = append(out, b)
	}
	return out
}

// at is a time of the drawing; none is minus nothing.
func at(t float64) string {
	if t > -0.005 && t < 0.005 {
		t = 0
	}
	return fmt.Sprintf("%.2f s", t)
}

// told are the drawing's states in words, in the order of time.
func told(v verdict.Rollout) []string {
	var all []moment
	for _, node := range nodesOf(v, countsOf(v.Series)) {
		for _, l := range lanesOf(v.Series, node) {
			for _, s := range l.states {
				if s.text != "" {
					all = append(all, moment{s.from, render.Joined(", ", render.Text(node), render.Joined(" ", l.label, l.thing)) + ": " + s.text})
				}
			}
		}
	}
	all = append(all, marksOf(v)...)
	for _, w := range v.NodeWindows {
		where := "until " + at(w.End)
		if w.Node != "" {
			where += ", " + placeOf(w)
		}
		all = append(all, moment{w.Start, where + ": " + gapText(v.Series, w)})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = at(l.at) + ": " + l.text
	}
	return out
}

// label says what a drawing shows.
func label(v verdict.Rollout) string {
	text := fmt.Sprintf("time line of rollout %d: %d of %d requests lost", v.Number, v.Lost, v.Sent)
	for _, w := range v.NodeWindows {
		if w.Lost > 0 {
			text += fmt.Sprintf("; %s to %s %s", at(w.Start), at(w.End), placeOf(w))
		}
	}
	return text
}
