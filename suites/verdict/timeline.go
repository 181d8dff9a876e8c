package verdict

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

const (
	stateUp     = "UP"
	stateOK     = "ok"
	stateOK200  = "200"
	stateReady  = "ready"
	stateDelete = "deleting"
	stateGone   = "gone"
	serving     = "serving"
)

// initialWithin: the first event of a thing counts as its state from the
// beginning if it came no later than this after the first event of its kind.
// The observers report what they find before they report changes.
const initialWithin = time.Second

// track is the state of one thing over time, in order.
type track []mark

type mark struct {
	at    int64
	state string
}

// at is the state at a time; "" where it is not known.
func (tr track) at(t int64) string {
	i, found := slices.BinarySearchFunc(tr, t, func(m mark, t int64) int { return cmp.Compare(m.at, t) })
	if found {
		return tr[i].state
	}
	if i == 0 {
		return ""
	}
	return tr[i-1].state
}

// first is the earliest time from which the state satisfies is, having not
// satisfied it before; only changes at or after from count.
func (tr track) first(from int64, is func(string) bool) (int64, bool) {
	before := false
	for i, m := range tr {
		now := is(m.state)
		initial := i == 0 && m.at == 0
		if now && !before && !initial && m.at >= from {
			return m.at, true
		}
		before = now
	}
	return 0, false
}

// timeline holds the tracks of a rollout.
type timeline struct {
	server   map[string]track // by node
	nodePort map[string]track // by node
	hcnp     map[string]track // by node
	pod      map[string]track // by pod
	endpoint map[string]track // by pod
	podNode  map[string]string
	deleted  string // the first pod whose deletion was seen to happen
	origin   int64  // when
}

func newTimeline(events []record.Event) timeline {
	tl := timeline{
		server:   tracks(events, record.KindServer, byNode),
		nodePort: tracks(events, record.KindNodePort, byNode),
		hcnp:     tracks(events, record.KindHCNP, byNode),
		pod:      tracks(events, record.KindPod, byPod),
		endpoint: tracks(events, record.KindEndpoint, byPod),
		podNode:  map[string]string{},
	}
	seen := map[string]bool{}
	for _, e := range events {
		if e.Kind != record.KindPod || e.Pod == "" {
			continue
		}
		if e.Node != "" {
			tl.podNode[e.Pod] = e.Node
		}
		// A pod that is deleting when it is first seen was so before.
		if e.State == stateDelete && seen[e.Pod] && tl.deleted == "" {
			tl.deleted, tl.origin = e.Pod, e.At
		}
		seen[e.Pod] = true
	}
	return tl
}

func byNode(e record.Event) string { return e.Node }
func byPod(e record.Event) string  { return e.Pod }

// tracks sorts the events of a kind into one track per key.
func tracks(events []record.Event, kind record.Kind, key func(record.Event) string) map[string]track {
	out := map[string]track{}
	begin := int64(0)
	for _, e := range events {
		if e.Kind != kind {
			continue
		}
		if at := changedAt(e); begin == 0 || at < begin {
			begin = at
		}
		out[key(e)] = append(out[key(e)], mark{changedAt(e), e.State})
	}
	for k, tr := range out {
		slices.SortStableFunc(tr, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
		if tr[0].at-begin <= initialWithin.Nanoseconds() {
			tr[0].at = 0
		}
		out[k] = tr
	}
	return out
}

// changedAt is the best estimate of when a change took place: the middle of
// (After, At] for what was polled, the receipt for what was pushed.
func changedAt(e record.Event) int64 {
	if e.After > 0 && e.After < e.At {
		return e.After + (e.At-e.After)/2
	}
	return e.At
}

// up are the nodes the load balancer holds UP.
func (tl timeline) up(t int64) []string {
	var nodes []string
	for node, tr := range tl.server {
		if tr.at(t) == stateUp {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// dead reports whether a node is known not to forward to the Service.
func (tl timeline) dead(node string, t int64) bool {
	s := tl.nodePort[node].at(t)
	return s != "" && s != stateOK
}

// drops reports whether the node was dead in silence.
func (tl timeline) drops(node string, t int64) bool {
	return isTimeout(tl.nodePort[node].at(t))
}

func isTimeout(state string) bool { return state == record.FailTimeout || state == "ETIMEDOUT" }

// pods tells of the pods on a node whether one is known there, whether one
// lived at t, and whether a living one was serving by its slice.
func (tl timeline) pods(node string, t int64) (known, lived, served bool) {
	for pod, on := range tl.podNode {
		if on != node {
			continue
		}
		s := tl.pod[pod].at(t)
		if s == "" {
			continue
		}
		known = true
		if s == stateGone {
			continue
		}
		lived = true
		if ep := tl.endpoint[pod].at(t); ep == "" || hasFlag(ep, serving) {
			served = true
		}
	}
	return known, lived, served
}

func hasFlag(flags, f string) bool {
	return slices.Contains(strings.Split(flags, ","), f)
}
