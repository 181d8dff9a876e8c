// Package scenario says what is done to a cluster under load, as values: which workload, which
// steps, what begins a transition, and what is promised to whom. It does nothing itself; suites/run
// carries it out on a stage, and suites/disruption lists those there are.
//
//	scenario.go    an entry of the catalogue, and what it is made of
//	condition.go   what a step waits for, asked of the states as they are recorded
//	params.go      what the command line may set
package scenario

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/timeline"
)

// Entry is a line of the catalogue: a promise, and how it is made concrete.
type Entry struct {
	Name     string
	Title    string // what is done, a line
	Says     string // what good looks like, a sentence
	Source   []string
	Rows     []row.Row // that it is run on unless others are asked for
	Profile  string    // of the load balancer, likewise
	Defaults Params
	Check    func(Params) error // why it would show nothing with these; nil: it has no such rule
	Build    func(Params) Scenario
}

// Scenario is one disturbance; nothing about it is decided elsewhere.
type Scenario struct {
	Replicas int // each on a node of its own
	Policy   corev1.ServiceExternalTrafficPolicy
	Needs    []disrupt.Need
	Steps    []Step
	Starts   timeline.Start // of each transition; the first is the origin of the drawing
	Promises []report.Promise
	Recovery Recovery     // how long a transition excuses what a promise excepts
	Model    report.Model // empty: none
	Phased   bool         // what is lost depends on where in their interval the balancer's checks are
	Sequence bool         // print what the client saw, a line per probe
}

// Recovery bounds what a transition excuses, beside the act "settled" that follows it.
type Recovery int

const (
	UntilSettled Recovery = iota // by that act alone
	FirstChecks                  // by the time that a load balancer needs to start and to find nodes that serve
)

// Step waits, then acts. Each part may be absent.
type Step struct {
	When Condition
	Wait time.Duration // after When
	Name string        // of what is done, in the records; empty: it is not noted
	Do   func(Now) disrupt.Act
	Undo bool // take back what was done so far that has an undo
}

// Now is what a step finds: the states as they are recorded so far, and who takes part.
type Now struct {
	*timeline.Timeline
	At       int64 // the time of records
	Since    int64 // when the last act was begun; 0: there was none
	App      workload.Spec
	Replicas int
	Policy   corev1.ServiceExternalTrafficPolicy
	Workers  []string
	// Balanced says that the load balancer's states are recorded.
	Balanced bool
	Balancer disrupt.LB    // the workload's
	Limit    time.Duration // for what is no matter of the dataplane, and the pod's own time
}

// Node is where the n-th of the pods that live is, by name.
func (n Now) Node(i int) string {
	if live := n.Live(n.At); i < len(live) {
		return live[i].Node
	}
	return ""
}

// Pod is the n-th of the pods that live, by name.
func (n Now) Pod(i int) string {
	if live := n.Live(n.At); i < len(live) {
		return live[i].Name
	}
	return ""
}
