// Package cell is what a promise about the path of a packet is asked over: every protocol, by
// every kind of address, under every policy, in every state of the endpoints, from every place,
// in both IP families and to every kind of endpoint. It is pure: a promise says over which
// cells it holds (Space), a behaviour's attempts say which they were in, and a table says
// which of a promise's cells, and which pairs of values, nobody asks for.
//
//	Cell       one value of each dimension
//	Space      the cells of a promise, with exceptions that name a document
//	Coverage   what of a space is asked
package cell

import (
	"slices"
	"strings"
)

// Dimension is one thing that varies.
type Dimension int

// The dimensions, in the order of a Cell.
const (
	Protocol Dimension = iota
	Frontend
	Policy
	State
	Source
	Family
	Kind
	dimensions
)

// Value is one of a dimension's.
type Value string

// Values of dimensions. The policy is the one that is about the frontend: the internal one
// for a ClusterIP, the external one for all others. The state is that of the endpoints which
// this policy looks at: those of the node where the packet is handled under Local, or of all.
const (
	TCP  Value = "TCP"
	UDP  Value = "UDP"
	SCTP Value = "SCTP"

	ClusterIP         Value = "ClusterIP"
	NodePort          Value = "node port, endpoint there" // of a node that has an endpoint of the Service
	NodePortElsewhere Value = "node port, none there"
	LoadBalancer      Value = "load balancer address"
	ExternalIP        Value = "external IP"

	Cluster Value = "Cluster"
	Local   Value = "Local"

	Ready           Value = "all ready"
	SomeNotReady    Value = "some not ready"
	SomeTerminating Value = "some terminating" // beside ready ones
	AllTerminating  Value = "terminating only" // some of them serve, and none is ready
	NoneUsable      Value = "none usable"      // not ready, or at their end and not serving
	NoneHere        Value = "none here"        // under Local, and elsewhere there are some
	None            Value = "none"

	PodHere      Value = "pod beside an endpoint" // on a node that has one
	PodElsewhere Value = "pod elsewhere"
	Node         Value = "node itself"
	Outside      Value = "outside"

	IPv4 Value = "IPv4"
	IPv6 Value = "IPv6"

	Pod         Value = "pod"
	HostNetwork Value = "host network"
	OtherPort   Value = "pod at a port of its own" // that differs from those of the others
)

var values = [dimensions][]Value{ // const
	Protocol: {TCP, UDP, SCTP},
	Frontend: {ClusterIP, NodePort, NodePortElsewhere, LoadBalancer, ExternalIP},
	Policy:   {Cluster, Local},
	State:    {Ready, SomeNotReady, SomeTerminating, AllTerminating, NoneUsable, NoneHere, None},
	Source:   {PodHere, PodElsewhere, Node, Outside},
	Family:   {IPv4, IPv6},
	Kind:     {Pod, HostNetwork, OtherPort},
}

// of is the dimension of each value: no value is in two.
var of = func() map[Value]Dimension { // const
	out := map[Value]Dimension{}
	for d, list := range values {
		for _, v := range list {
			out[v] = Dimension(d)
		}
	}
	return out
}()

// Cell has a value of each dimension, in their order.
type Cell [dimensions]Value

func (c Cell) String() string {
	words := make([]string, len(c))
	for d, v := range c {
		words[d] = string(v)
	}
	words[Policy] = "policy " + words[Policy]
	words[State] = "endpoints " + words[State]
	words[Source] = "from " + words[Source]
	words[Kind] = "to " + words[Kind]
	return strings.Join(words, ", ")
}

// has tells whether a cell has one of the values for each dimension that they are of.
func (c Cell) has(list []Value) bool {
	var named, met [dimensions]bool
	for _, v := range list {
		d := of[v]
		named[d] = true
		met[d] = met[d] || c[d] == v
	}
	return named == met
}

// possible tells whether there is such a cell at all.
func (c Cell) possible() bool {
	nobody := c[State] == None
	switch {
	case c[Source] == Outside && c[Frontend] == ClusterIP:
		return false // "a cluster-internal IP address"
	case c[State] == NoneHere && c[Policy] != Local:
		return false
	case nobody && (c[Kind] != Pod || c[Source] == PodHere || c[Frontend] == NodePort):
		return false // there is no endpoint to be of a kind, or beside
	case c[State] == NoneHere && (c[Frontend] == NodePort || c[Frontend] == ClusterIP && c[Source] == PodHere):
		return false
	case c[Policy] == Local && c[Frontend] == NodePortElsewhere && c[State] != NoneHere && c[State] != None:
		return false // of the endpoints of a node that has none
	case c[Policy] == Local && c[Frontend] == ClusterIP && c[Source] == PodElsewhere && c[State] != NoneHere && c[State] != None:
		return false
	}
	return true
}

// Exception is where a promise does not hold, or says nothing, by a document.
type Exception struct {
	Of       []Value // cells with one of these for each dimension that they are of
	Document string  // an address
	Says     string  // what it says, or does not say, in a line
}

// Space is the cells that a promise holds over. The zero Space has none.
type Space struct {
	Of     []Value // those it is about; of a dimension without any, all
	Except []Exception
}

// Has tells whether a promise holds in a cell.
func (s Space) Has(c Cell) bool {
	return s.Of != nil && c.possible() && c.has(s.Of) &&
		!slices.ContainsFunc(s.Except, func(e Exception) bool { return c.has(e.Of) })
}

// Cells are all of a space.
func (s Space) Cells() (out []Cell) {
	for c := range every {
		if s.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// every yields each combination of values.
func every(yield func(Cell) bool) {
	var c Cell
	var at func(d Dimension) bool
	at = func(d Dimension) bool {
		if d == dimensions {
			return yield(c)
		}
		for _, v := range values[d] {
			if c[d] = v; !at(d + 1) {
				return false
			}
		}
		return true
	}
	at(0)
}
