package lifecycle

import (
	"fmt"
	"strings"
)

// name is what an event is known by in all plays of a life.
type name struct {
	pod, facet, value string
	restarts          string // of the pod's container, if it is the pod's object that tells
	early             bool   // what does not hold yet, which may go unseen; that it does not hold any more is another thing
	time              int    // the how manieth of these
}

func (n name) String() string {
	s := n.pod + " " + n.facet + "=" + n.value
	if n.restarts != "" && n.restarts != "0" {
		s += " after restart " + n.restarts
	}
	if n.time > 1 {
		s += fmt.Sprintf(" (%d)", n.time)
	}
	return s
}

func (n name) is(f facet) bool { return n.facet == f.name && strings.HasPrefix(n.value, f.value) }

// source is what tells of it.
func (n name) source() string {
	switch n.facet {
	case facetEndpoint, facetProgram:
		return n.facet
	}
	return facetObject
}

// named are the events of a life by their names, and the names in their order.
func named(l Life) (map[name]Event, []name) {
	byName, order, begun := map[name]Event{}, []name{}, map[subject]bool{}
	for _, e := range l.Events {
		s := subject{e.Pod, e.Facet}
		n := name{pod: e.Pod, facet: e.Facet, value: e.Value, time: 1}
		n.early = !begun[s] && (e.Value == "none" || strings.HasPrefix(e.Value, "False"))
		begun[s] = true
		if n.source() == facetObject {
			n.restarts = restartsAt(l, e)
		}
		for ; ; n.time++ {
			if _, taken := byName[n]; !taken {
				break
			}
		}
		byName[n] = e
		order = append(order, n)
	}
	return byName, order
}

// restartsAt is how often a pod's container had been started again in the version
// of an event.
func restartsAt(l Life, e Event) (restarts string) {
	for _, r := range l.Events {
		if r.Pod == e.Pod && r.Facet == facetContainer+".restarts" && r.Step <= e.Step {
			restarts = r.Value
		}
	}
	return restarts
}

// relation of two events in one play.
type relation string

const (
	before   relation = "before"
	together relation = "together with"
	after    relation = "after"
	unclear  relation = "" // no order can be told
)

func relate(a, b Event) relation {
	if a.Step > 0 && b.Step > 0 {
		switch {
		case a.Step < b.Step:
			return before
		case a.Step > b.Step:
			return after
		}
		return together
	}
	doubt := stampDoubt
	if a.Step == 0 && b.Step == 0 {
		doubt = 0 // one clock, read where it happened
	}
	switch {
	case b.At-a.At > doubt:
		return before
	case a.At-b.At > doubt:
		return after
	}
	return unclear
}
