package report

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/verdict"
)

// traceEvent is one of Chrome's Trace Event Format, which Perfetto reads: times are in
// microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"` // X: a state with a duration, i: an instant, M: the name of a process or thread
	At    float64        `json:"ts"`
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// trace has each rollout as a process, each of its lanes as a thread, and what was lost or late as
// instants, which overlap. Rollouts begin at 0, one beside the other.
func trace(s Summary) ([]byte, error) {
	var t tracer
	for _, sc := range s.Scenarios {
		for _, r := range sc.Rows {
			for _, v := range slices.Concat(r.Rollouts, r.Invalid) {
				t.rollout(fmt.Sprintf("%s: %s, rollout %d", render.Text(sc.Name), render.Text(r.Name), v.Number), v)
			}
		}
	}
	b, err := json.Marshal(map[string]any{"displayTimeUnit": "ms", "traceEvents": append([]traceEvent{}, t.events...)})
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", TraceFile, err)
	}
	return append(b, '\n'), nil
}

type tracer struct {
	events   []traceEvent
	pid, tid int
	from     float64
}

func (t *tracer) rollout(name string, v verdict.Rollout) {
	t.pid++
	t.tid, t.from = 0, v.Series.From
	t.name("process_name", name)
	for _, node := range nodesOf(v, countsOf(v.Series)) {
		for _, l := range lanesOf(v.Series, node) {
			t.lane(render.Joined(" ", render.Text(node), l.label), l.states, v.Series.To)
		}
		t.requests(render.Joined(" ", render.Text(node), "requests lost or late"), node, v.Series.Points)
	}
}

func (t *tracer) name(kind, name string) {
	t.events = append(t.events, traceEvent{Name: kind, Phase: "M", PID: t.pid, TID: t.tid, Args: map[string]any{"name": name}})
}

func (t *tracer) at(s float64) float64 { return (s - t.from) * 1e6 }

func (t *tracer) lane(name string, all []state, end float64) {
	if len(all) == 0 {
		return
	}
	t.tid++
	t.name("thread_name", name)
	for i, s := range all {
		to := end
		if i+1 < len(all) {
			to = all[i+1].from
		}
		from := max(s.from, t.from)
		if s.class == "" || to <= from {
			continue
		}
		t.events = append(t.events, traceEvent{Name: s.text, Phase: "X", At: t.at(from), Took: (to - from) * 1e6, PID: t.pid, TID: t.tid})
	}
}

func (t *tracer) requests(name, node string, points []verdict.Point) {
	t.tid++
	t.name("thread_name", name)
	for _, p := range points {
		if p.Node != node || !p.Class.Lost() && !p.Class.Slow() {
			continue
		}
		t.events = append(t.events, traceEvent{Name: string(p.Class), Phase: "i", Scope: "t", At: t.at(p.T), PID: t.pid, TID: t.tid,
			Args: map[string]any{"cause": p.Cause, "took": p.Took}})
	}
}
