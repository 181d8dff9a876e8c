package conntrack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what Flows need.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
	// ResetTCP: established TCP connections to endpoints that are gone are reset
	// at both sides. Off, they are left alone, as by every other proxy.
	ResetTCP bool
}

// Flows keep the connection tracking of one network namespace free of stale
// flows. Stats may be called at any time, the rest is not safe for concurrent use.
type Flows struct {
	log      *slog.Logger // const after New
	resetTCP bool         // const after New

	table  *table
	synced bool // table is what the last Apply was given
	kernel tracker
	plain  bool // the kernel has no CTA_FILTER

	deleted, resets, silent, dumps, seen atomic.Uint64
}

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
}

// New makes Flows; nothing is opened before a change asks for it.
func New(cfg Config) *Flows {
	return &Flows{log: cfg.Logger, resetTCP: cfg.ResetTCP, table: newTable(cfg.ResetTCP), kernel: &kernel{netns: cfg.NetNS, within: answerWithin}}
}

// Stats is safe to call at any time.
func (f *Flows) Stats() Stats {
	return Stats{Deleted: f.deleted.Load(), Resets: f.resets.Load(), Silent: f.silent.Load(), Dumps: f.dumps.Load(), Seen: f.seen.Load()}
}

// Close frees the socket. The kernel's table stays as it is.
func (f *Flows) Close() error { return f.kernel.close() }

// Apply ends the flows that a change made stale. The rules of the change must be
// in the kernel already: a flow that begins now is a good one. Both plans may be
// partial plans of the same Services. A nil old stands for a start, or for a
// change that was missed: then new must be complete, and every UDP flow of the
// families in it is judged, read once.
//
// After an error the next Apply must have a nil old.
func (f *Flows) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if old != nil && !f.synced {
		return errors.New("end stale flows of a difference: what there was before is not known")
	}
	w, undo := f.table.change(old, new)
	if err := f.end(ctx, &w); err != nil {
		undo()
		f.synced = false
		return fmt.Errorf("end stale flows: %w", err)
	}
	f.synced = true
	return nil
}

func (f *Flows) end(ctx context.Context, w *work) error {
	stale, err := f.find(ctx, w)
	if err != nil {
		return err
	}
	before := f.Stats()
	var mute error
	for _, fl := range stale {
		if err := ctx.Err(); err != nil {
			return err
		}
		there, err := f.kernel.remove(ctx, fl)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		f.deleted.Add(1)
		if w.judge(fl) == reset {
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
