package verdict

import (
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// early is how far before its own report a deletion may have had an effect:
// watches race each other, and a poll's change is put in the middle.
const early = 100 * time.Millisecond

// observe reads the model's inputs off the recorded states of one rollout of a
// single replica that moves between nodes.
func observe(tl timeline, events []record.Event, origin int64, known bool) Observed {
	var o Observed
	if !known {
		return o
	}
	at := func(tr track, from int64, is func(string) bool) *float64 {
		t, ok := tr.first(from, is)
		if !ok {
			return nil
		}
		s := seconds(t - origin)
		return &s
	}
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	isNot := func(want string) func(string) bool { return func(s string) bool { return s != want } }

	old, replacement := tl.deleted, replacementOf(tl.deleted, events)
	from := origin - early.Nanoseconds()
	o.OldNode, o.NewNode = tl.podNode[old], tl.podNode[replacement]
	if old != "" {
		o.Slice = at(tl.endpoint[old], from, func(s string) bool { return !hasFlag(s, stateReady) })
		o.Gone = at(tl.pod[old], from, is(stateGone))
	}
	if o.OldNode != "" {
		o.HCNPDown = at(tl.hcnp[o.OldNode], from, isNot(stateOK200))
		o.OldDead = at(tl.nodePort[o.OldNode], from, isNot(stateOK))
		o.LBDown = at(tl.server[o.OldNode], from, isNot(stateUp))
	}
	if replacement != "" {
		o.Ready = at(tl.pod[replacement], 0, is(stateReady))
	}
	if o.NewNode != "" && o.NewNode != o.OldNode {
		o.NewForwards = at(tl.nodePort[o.NewNode], 0, is(stateOK))
		o.HCNPUp = at(tl.hcnp[o.NewNode], 0, is(stateOK200))
		o.LBUp = at(tl.server[o.NewNode], 0, is(stateUp))
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
		if e.Kind == record.KindPod && e.State == stateReady && e.Pod != old {
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
