// Package timeline holds the states of things over time, as observers recorded them: what the
// verdict reads. It grows by events as they come, or holds all of them. It is pure and not for
// concurrent use.
package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// States of records, as package record has them.
const (
	Up       = "UP"       // of a server at the load balancer
	Forwards = "ok"       // of a node port
	Healthy  = "200"      // of a health check port
	Ready    = "ready"    // of a pod, and a flag of an endpoint
	Deleting = "deleting" // of a pod
	Gone     = "gone"     // of a pod and an endpoint
	Serving  = "serving"  // a flag of an endpoint
)

// initialWithin: the first event of a thing counts as its state from the
// beginning if it came no later than this after the first event of its kind.
// The observers report what they find before they report changes.
const initialWithin = time.Second

// Start says which events begin a transition: of a pod that it is deleted, of the load balancer
// that it reloads or ends, of the scenario that it does something.
type Start struct {
	Kind  record.Kind `json:"kind"`
	State string      `json:"state"`
}

// PodDeleted is what begins a transition where nothing else is said.
func PodDeleted() Start { return Start{record.KindPod, Deleting} }

func (s Start) String() string { return string(s.Kind) + " " + s.State }

// Timeline grows by the events of one rollout. The zero value holds none.
type Timeline struct {
	kinds  map[record.Kind]*kind
	pods   map[string]pod
	begins []record.Event // pods that were deleted, acts, and what the load balancer did
}

type pod struct{ node, uid string }

// kind is one kind of thing.
type kind struct {
	begin  int64             // its first event
	tracks map[string][]mark // by node or pod, in order
}

type mark struct {
	at          int64 // the best estimate of when it began
	after, seen int64 // it began between these, after not included
	state       string
}

// New holds events, which need not be in order.
func New(events []record.Event) *Timeline {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b record.Event) int { return cmp.Compare(ChangedAt(a), ChangedAt(b)) })
	t := &Timeline{}
	for _, e := range events {
		t.Add(e)
	}
	return t
}

// ChangedAt is the best estimate of when a change took place: the middle of
// (After, At] for what was polled, the receipt for what was pushed.
func ChangedAt(e record.Event) int64 {
	if e.After > 0 && e.After < e.At {
		return e.After + (e.At-e.After)/2
	}
	return e.At
}

// Add takes one more event.
func (t *Timeline) Add(e record.Event) {
	key := e.Node
	switch e.Kind {
	case record.KindPod, record.KindEndpoint, record.KindDirect:
		key = e.Pod
	case record.KindServer, record.KindNodePort, record.KindHCNP, record.KindServed:
	case record.KindAct, record.KindLB: // they change nothing that has a state
		t.begins = append(t.begins, e)
		return
	default:
		return
	}
	if e.Kind == record.KindPod {
		t.addPod(e)
	}
	if t.kinds == nil {
		t.kinds = map[record.Kind]*kind{}
	}
	at := ChangedAt(e)
	k := t.kinds[e.Kind]
	if k == nil {
		k = &kind{begin: at, tracks: map[string][]mark{}}
		t.kinds[e.Kind] = k
	}
	k.begin = min(k.begin, at)
	m := mark{at: at, after: e.After, seen: e.At, state: e.State}
	if at == e.At {
		m.after = at
	}
	tr := append(k.tracks[key], m)
	slices.SortStableFunc(tr, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	k.tracks[key] = tr
}

func (t *Timeline) addPod(e record.Event) {
	if e.Pod == "" {
		return
	}
	if t.pods == nil {
		t.pods = map[string]pod{}
	}
	p, seen := t.pods[e.Pod]
	p.node, p.uid = cmp.Or(e.Node, p.node), cmp.Or(e.UID, p.uid)
	t.pods[e.Pod] = p
	// A pod that is deleting when it is first seen was so before.
	if e.State == Deleting && seen {
		t.begins = append(t.begins, e)
	}
}

// Known are the nodes or pods of which there are states of a kind.
func (t *Timeline) Known(k record.Kind) []string {
	var names []string
	if k := t.kinds[k]; k != nil {
		for name := range k.tracks {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// At is the state at a time; "" where it is not known.
func (t *Timeline) At(k record.Kind, name string, at int64) string {
	tr, initial := t.track(k, name)
	i, found := slices.BinarySearchFunc(tr, at, func(m mark, at int64) int { return cmp.Compare(m.at, at) })
	switch {
	case found:
		return tr[i].state
	case i > 0:
		return tr[i-1].state
	case initial:
		return tr[0].state
	}
	return ""
}

// Steady reports whether a thing was in one state all the time, or its state is not known at all.
func (t *Timeline) Steady(k record.Kind, name string, from, to int64, state string) bool {
	tr, _ := t.track(k, name)
	if len(tr) == 0 {
		return true
	}
	if s := t.At(k, name, from); s != state && s != "" {
		return false
	}
	return !slices.ContainsFunc(tr, func(m mark) bool { return m.at > from && m.at <= to && m.state != state })
}

// First is the earliest time from which the state satisfies is, having not
// satisfied it before; only changes at or after from count.
func (t *Timeline) First(k record.Kind, name string, from int64, is func(string) bool) (int64, bool) {
	before := false
	tr, initial := t.track(k, name)
	for i, m := range tr {
		now := is(m.state)
		if now && !before && !(initial && i == 0) && m.at >= from {
			return m.at, true
		}
		before = now
	}
	return 0, false
}

// track are the states of one thing; initial says that the first of them is what it was in
// from the beginning.
func (t *Timeline) track(k record.Kind, name string) (tr []mark, initial bool) {
	of := t.kinds[k]
	if of == nil {
		return nil, false
	}
	tr = of.tracks[name]
	return tr, len(tr) > 0 && tr[0].at-of.begin <= initialWithin.Nanoseconds()
}

// Starts are the events that begin a transition, in order.
func (t *Timeline) Starts(s Start) []record.Event {
	var all []record.Event
	for _, e := range t.begins {
		if e.Kind == s.Kind && e.State == s.State {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b record.Event) int { return cmp.Compare(a.At, b.At) })
	return all
}

// Deleted is the first pod whose deletion was seen to happen, and when; "" if there is none.
func (t *Timeline) Deleted() (pod string, at int64) {
	for _, e := range t.Starts(PodDeleted()) {
		return e.Pod, e.At
	}
	return "", 0
}

// Pod is one that lives, as it is known at a time.
type Pod struct{ Name, Node, State string }

// Live are the pods that are known and not gone at a time, by name.
func (t *Timeline) Live(at int64) []Pod {
	var all []Pod
	for _, name := range t.Known(record.KindPod) {
		if s := t.At(record.KindPod, name, at); s != "" && s != Gone {
			all = append(all, Pod{name, t.NodeOf(name), s})
		}
	}
	return all
}

// Cut reports whether a node was kept from the API at a time, or for so long before it that its
// agents may not have come back.
func (t *Timeline) Cut(node string, at int64, before time.Duration) (is bool, since int64) {
	for _, e := range t.begins {
		if e.Kind != record.KindAct || e.At > at {
			continue
		}
		switch {
		case e.State == record.ActCut && e.Node == node:
			is, since = true, e.At
		case e.State == record.ActHealed && at-e.At > before.Nanoseconds():
			is = false
		}
	}
	return is, since
}

// NodeOf is the node of a pod; "" where it is not known.
func (t *Timeline) NodeOf(pod string) string { return t.pods[pod].node }

// Workload reports whether a pod is one of those whose states are held; of no pod it is
// said that it is not while there are none.
func (t *Timeline) Workload(pod, uid string) bool {
	p, ok := t.pods[pod]
	return len(t.pods) == 0 || ok && (uid == "" || p.uid == "" || p.uid == uid)
}

// Up are the nodes the load balancer holds UP.
func (t *Timeline) Up(at int64) []string {
	var nodes []string
	for _, node := range t.Known(record.KindServer) {
		if t.At(record.KindServer, node, at) == Up {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Dead reports whether a node is known not to forward to the Service.
func (t *Timeline) Dead(node string, at int64) bool {
	s := t.At(record.KindNodePort, node, at)
	return s != "" && s != Forwards
}

// Changing are the states that a thing may have had at a time: one, or within the distance
// of two polls that found different ones, both.
func (t *Timeline) Changing(k record.Kind, name string, at int64) []string {
	tr, initial := t.track(k, name)
	states := []string{t.At(k, name, at)}
	for i, m := range tr {
		if initial && i == 0 || at < m.after || at > m.seen {
			continue
		}
		before := ""
		if i > 0 {
			before = tr[i-1].state
		}
		for _, s := range []string{before, m.state} {
			if s != "" && !slices.Contains(states, s) {
				states = append(states, s)
			}
		}
	}
	return states
}

// Drops reports whether the node was dead in silence.
func (t *Timeline) Drops(node string, at int64) bool {
	return Silent(t.At(record.KindNodePort, node, at))
}

// Silent reports whether a failure's name says that nothing answered.
func Silent(failure string) bool { return failure == record.FailTimeout || failure == "ETIMEDOUT" }

// Pods tells of the pods on a node whether one is known there, whether one
// lived at a time, and whether a living one was serving by its slice.
func (t *Timeline) Pods(node string, at int64) (known, lived, served bool) {
	for pod, p := range t.pods {
		if p.node != node {
			continue
		}
		s := t.At(record.KindPod, pod, at)
		if s == "" {
			continue
		}
		known = true
		if s == Gone {
			continue
		}
		lived = true
		if ep := t.At(record.KindEndpoint, pod, at); ep == "" || HasFlag(ep, Serving) {
			served = true
		}
	}
	return known, lived, served
}

// Ready reports whether one pod of a node was ready all the time, and so its endpoint where there is
// one.
func (t *Timeline) Ready(node string, from, to int64) bool {
	for name, p := range t.pods {
		if p.node != node || t.At(record.KindPod, name, from) != Ready || !t.Steady(record.KindPod, name, from, to, Ready) {
			continue
		}
		ep := t.At(record.KindEndpoint, name, from)
		if ep == "" && len(t.Known(record.KindEndpoint)) == 0 || HasFlag(ep, Ready) && t.Steady(record.KindEndpoint, name, from, to, ep) {
			return true
		}
	}
	return false
}

// HasFlag reports whether an endpoint's state holds a flag.
func HasFlag(flags, f string) bool { return slices.Contains(strings.Split(flags, ","), f) }
