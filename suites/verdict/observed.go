package verdict

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// early is how far before its own report a deletion may have had an effect:
// watches race each other, and a poll's change is put in the middle.
const early = 100 * time.Millisecond

// observe reads the model's inputs off the recorded states of one rollout of a
// single replica that moves between nodes.
func observe(tl *timeline.Timeline, events []record.Event, origin int64, known bool) Observed {
	var o Observed
	if !known {
		return o
	}
	at := func(k record.Kind, name string, from int64, is func(string) bool) *float64 {
		t, ok := tl.First(k, name, from, is)
		if !ok {
			return nil
		}
		s := seconds(t - origin)
		return &s
	}
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	isNot := func(want string) func(string) bool { return func(s string) bool { return s != want } }

	old, _ := tl.Deleted()
	replacement := replacementOf(old, events)
	from := origin - early.Nanoseconds()
	o.OldNode, o.NewNode = tl.NodeOf(old), tl.NodeOf(replacement)
	if old != "" {
		o.Slice = at(record.KindEndpoint, old, from, func(s string) bool { return !timeline.HasFlag(s, timeline.Ready) })
		o.Gone = at(record.KindPod, old, from, is(timeline.Gone))
	}
	if o.OldNode != "" {
		o.HCNPDown = at(record.KindHCNP, o.OldNode, from, isNot(timeline.Healthy))
		o.OldDead = at(record.KindNodePort, o.OldNode, from, isNot(timeline.Forwards))
		o.LBDown = at(record.KindServer, o.OldNode, from, isNot(timeline.Up))
	}
	if replacement != "" {
		o.Ready = at(record.KindPod, replacement, 0, is(timeline.Ready))
	}
	if o.NewNode != "" && o.NewNode != o.OldNode {
		o.NewForwards = at(record.KindNodePort, o.NewNode, 0, is(timeline.Forwards))
		o.HCNPUp = at(record.KindHCNP, o.NewNode, 0, is(timeline.Healthy))
		o.LBUp = at(record.KindServer, o.NewNode, 0, is(timeline.Up))
	}
	o.Removal = minus(o.LBDown, o.HCNPDown)
	o.Admission = minus(o.LBUp, o.HCNPUp)
	o.SafeDelay = o.LBDown
	return o
}

// replacementOf is the last pod other than the deleted one to become ready.
func replacementOf(old string, events []record.Event) string {
	name := ""
	for _, e := range events {
		if e.Kind == record.KindPod && e.State == timeline.Ready && e.Pod != old {
			name = e.Pod
		}
	}
	return name
}

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}
