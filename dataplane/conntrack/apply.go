package conntrack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

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
	plain   bool // the kernel has no CTA_FILTER

	deleted, resets, silent, dumps, seen, failures atomic.Uint64
}

// Grace is a ResetTCP that outlives a slice that is deleted and made again, and an endpoint
// that moves between two.
const Grace = 5 * time.Second

// change is one of the rules that are in the kernel.
type change struct{ old, new *plan.Plan }

// tracker is a kernel's connection tracking.
type tracker interface {
	// dump calls each for the flows that q matches, or for those of its family
	// if plain.
	dump(ctx context.Context, q filter, plain bool, each func(flow)) error
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
	Resets  uint64 // TCP connections among them that were reset
	Silent  uint64 // TCP connections among them that could not be reset: their sides learn of it when they send
	Dumps   uint64 // questions to the kernel, each a walk of its table
	Seen    uint64 // flows in its answers
	// Failures are rounds that the kernel broke off. Each is tried again.
	Failures uint64
}

// New makes Flows; nothing is opened before a change asks for it.
func New(cfg Config) *Flows {
	return &Flows{
		log: cfg.Logger, resetTCP: cfg.ResetTCP, wake: make(chan struct{}, 1), pending: newWork(newTable(cfg.ResetTCP > 0)),
		kernel: &kernel{netns: cfg.NetNS, within: answerWithin},
	}
}

// Stats is safe to call at any time.
func (f *Flows) Stats() Stats {
	return Stats{
		Deleted: f.deleted.Load(), Resets: f.resets.Load(), Silent: f.silent.Load(), Dumps: f.dumps.Load(), Seen: f.seen.Load(),
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
func (f *Flows) Changed(old, new *plan.Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = f.begun // one that failed is part of the next that did not
	f.queue = append(f.queue, change{old, new})
	f.wakeUp()
}

func (f *Flows) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// The delays between attempts after a failure.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
)

// Run ends stale flows until ctx does, and frees the socket. The kernel's table stays as
// it is then.
func (f *Flows) Run(ctx context.Context) error {
	delay := retryFirst
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.kernel.close()
		case <-f.wake:
		case <-again.C:
		}
		next, err := f.round(ctx)
		if err != nil {
			if ctx.Err() == nil {
				f.failures.Add(1)
				f.log.Error("stale flows not ended, will retry", "err", err)
			}
			next, delay = delay, min(2*delay, retryMost)
		} else {
			delay = retryFirst
		}
		if next > 0 {
			again.Reset(next)
		}
	}
}

// round does what there is to do, and tells in what time there is more; 0: when
// something changes.
func (f *Flows) round(ctx context.Context) (next time.Duration, err error) {
	f.takeIn()
	w, next := f.pending.due(time.Now(), f.resetTCP)
	if err := f.end(ctx, w); err != nil {
		return 0, fmt.Errorf("end stale flows: %w", err)
	}
	f.pending.done(w, f.resetTCP, time.Now())
	return next, nil
}

// takeIn brings the table up to date.
func (f *Flows) takeIn() {
	f.mu.Lock()
	queue := f.queue
	f.queue = nil
	f.mu.Unlock()
	for _, c := range queue {
		f.pending.take(c.old, c.new, time.Now())
	}
}

func (f *Flows) end(ctx context.Context, w *work) error {
	stale, err := f.find(ctx, w)
	if err != nil || len(stale) == 0 {
		return err
	}
	if err := f.catchUp(ctx, w); err != nil {
		return err
	}
	before := f.Stats()
	var mute error
	for _, fl := range stale {
		if err := ctx.Err(); err != nil {
			return err
		}
		what := w.judge(fl)
		if what == keep {
			continue // by rules that came meanwhile
		}
		there, err := f.kernel.remove(ctx, fl)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		f.deleted.Add(1)
		if what == reset {
			mute = errors.Join(mute, f.reset(ctx, fl, mute == nil))
		}
	}
	if mute != nil { // nothing to try again: the flow is not there any more
		f.log.Warn("connections not reset; their sides learn of it when they send", "connections", f.Stats().Silent-before.Silent, "first", mute)
	}
	if n := f.Stats().Deleted - before.Deleted; n > 0 {
		f.log.Info("stale flows deleted", "flows", n)
	}
	return nil
}

// catchUp waits until the table holds every change of the rules that has begun: what was
// found may be of one that nobody has told of yet.
func (f *Flows) catchUp(ctx context.Context, w *work) error {
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	for {
		f.mu.Lock()
		in := f.ended >= begun
		f.mu.Unlock()
		if in {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
	}
	f.takeIn()
	w.renew(f.pending)
	f.wakeUp() // what was taken in may ask for more
	return nil
}

// reset counts, and returns the error if it is the first.
func (f *Flows) reset(ctx context.Context, fl flow, first bool) error {
	err := f.kernel.reset(ctx, fl)
	if err == nil {
		f.resets.Add(1)
		return nil
	}
	f.silent.Add(1)
	if first {
		return err
	}
	return nil
}

// find asks the kernel for flows and returns those that are stale.
func (f *Flows) find(ctx context.Context, w *work) ([]flow, error) {
	var stale []flow
	asked := w.questions()
	for i := 0; i < len(asked); i++ {
		q := asked[i]
		if f.plain {
			q = q.wide()
			if i > 0 && asked[i-1].wide() == q {
				continue
			}
		}
		found, err := f.ask(ctx, w, q)
		if err != nil {
			return nil, err
		}
		stale = append(stale, found...)
	}
	return stale, nil
}

// dumpTries bounds the dumps that are begun anew because the kernel says that
// they are not consistent. The caller tries again later.
const dumpTries = 5

func (f *Flows) ask(ctx context.Context, w *work, q filter) ([]flow, error) {
	for range dumpTries {
		stale, unasked, err := f.dump(ctx, w, q)
		noFilter := unasked || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL)
		switch {
		case !f.plain && noFilter:
			f.plain = true
			f.log.Warn("the kernel cannot filter flows (CTA_FILTER, Linux 5.8): its whole table is read for each change of a UDP Service", "answer", err)
			q = q.wide()
		case errors.Is(err, errInterrupted):
		default:
			return stale, err
		}
	}
	return nil, fmt.Errorf("dump flows of %s: %w, %d times", q, errInterrupted, dumpTries)
}

// dump judges the answer to one question. A kernel that does not know of filters
// sends what was not asked for; a filter that matches everything shows it not.
func (f *Flows) dump(ctx context.Context, w *work, q filter) (stale []flow, unasked bool, err error) {
	f.dumps.Add(1)
	err = f.kernel.dump(ctx, q, f.plain, func(fl flow) {
		f.seen.Add(1)
		unasked = unasked || !q.matches(fl)
		if w.judge(fl) != keep {
			stale = append(stale, fl)
		}
	})
	return stale, unasked && !f.plain, err
}
