package conntrack

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what Flows need.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// ResetTCP: established TCP connections to endpoints that have been gone for so
	// long are reset at both sides. 0: they are left alone, as by every other proxy.
	ResetTCP time.Duration
}

// Flows keep the connection tracking of one network namespace free of stale
// flows. Changing, Changed and Stats may be called at any time.
type Flows struct {
	log      *slog.Logger  // const after New
	resetTCP time.Duration // const after New
	wake     chan struct{}

	mu           sync.Mutex
	queue        []change // guarded by mu; what Run has not taken in yet
	begun, ended uint64   // guarded by mu; changes of the rules

	// Only Run touches the rest.
	pending *work
	kernel  tracker
	kept    kept
	plain   bool          // the kernel has no CTA_FILTER
	walked  time.Duration // how long the last round's questions took

	deletedIPv4, deletedIPv6, resets, silent, dumps, seen, failures atomic.Uint64
}

// Grace is a ResetTCP that outlives a slice that is deleted and made again, and an endpoint
// that moves between two.
const Grace = 5 * time.Second

// change is one of the rules that are in the kernel, but for the refused ones.
type change struct {
	old, new *plan.Plan
	refused  map[plan.Key]error
}

// tracker is a kernel's connection tracking.
type tracker interface {
	// dump calls each for the flows that q matches, or for those of its family
	// if plain.
	dump(ctx context.Context, q filter, plain bool, each func(flow)) error
	// read is the flow as it is now, and whether it is there.
	read(ctx context.Context, f flow) (flow, bool, error)
	// remove tells whether the flow was there.
	remove(ctx context.Context, f flow) (bool, error)
	// reset ends the TCP connection of a flow that was removed.
	reset(ctx context.Context, f flow) error
	close() error
}

var _ tracker = (*kernel)(nil)

// Stats count since New.
type Stats struct {
	Deleted uint64 // flows deleted, of UDP and of TCP
	IPv6    uint64 // those of them that are of IPv6
	Resets  uint64 // TCP connections among them that were reset
	Silent  uint64 // TCP connections among them that could not be reset: their sides learn of it when they send
	Dumps   uint64 // questions to the kernel, each a walk of its table
	Seen    uint64 // flows in its answers
	// Failures are rounds that the kernel broke off, or in which it kept a flow that is
	// stale. Each is tried again.
	Failures uint64
}

// New makes Flows; nothing is opened before a change asks for it.
func New(cfg Config) *Flows {
	return &Flows{
		log: cfg.Logger, resetTCP: cfg.ResetTCP, wake: make(chan struct{}, 1), pending: newWork(newTable(cfg.ResetTCP > 0)), kept: kept{},
		kernel: &kernel{netns: cfg.NetNS, within: answerWithin},
	}
}

// Stats is safe to call at any time.
func (f *Flows) Stats() Stats {
	v4, v6 := f.deletedIPv4.Load(), f.deletedIPv6.Load()
	return Stats{
		Deleted: v4 + v6, IPv6: v6, Resets: f.resets.Load(), Silent: f.silent.Load(), Dumps: f.dumps.Load(), Seen: f.seen.Load(),
		Failures: f.failures.Load(),
	}
}

// Changing says that the rules are about to change. What the kernel's table shows from
// now on may be theirs: nothing is ended before Changed has told what they are.
func (f *Flows) Changing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
}

// Changed says which change of the rules is in the kernel: a flow that begins now is a
// good one. It does not wait; Run ends the flows that the change made stale. Both plans
// stay as they are, and may be partial plans of the same Services. A nil old stands for a
// start, or for a change that was missed: then new must be complete, and every UDP flow of
// the families in it is judged, read once. The first change must be such a one.
//
// refused are all frontends that the kernel does not take by now, in new or not. Their
// rules are as they were, whatever that is: no flow of theirs is known to be stale.
func (f *Flows) Changed(old, new *plan.Plan, refused map[plan.Key]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = f.begun // one that failed is part of the next that did not
	f.queue = append(f.queue, change{old, new, refused})
	f.wakeUp()
}

func (f *Flows) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
