package conntrack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The delays between attempts after a failure.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
)

// Run ends stale flows until ctx does, and frees the socket. The kernel's table stays as
// it is then.
func (f *Flows) Run(ctx context.Context) error {
	delay, broken := retryFirst, false
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.kernel.close()
		case <-f.wake:
			if broken { // the retry takes it along
				f.takeIn()
				continue
			}
		case <-again.C:
		}
		next, err := f.round(ctx)
		var kept *keptError
		broken = err != nil && !errors.As(err, &kept)
		if err == nil {
			delay = retryFirst
		} else {
			if ctx.Err() == nil {
				f.failures.Add(1)
				f.log.Error("stale flows not ended, will retry", "err", err)
			}
			if next == 0 || delay < next {
				next = delay
			}
			delay = min(2*delay, retryMost)
		}
		if next > 0 {
			again.Reset(next)
		}
	}
}

// keptError are flows that the kernel does not delete, such as those that a device or a
// flowtable forwards (Linux 4.16 to 6.3). They wait for the next round, and nothing waits
// for them.
type keptError struct {
	flows []flow
	first error
}

func (e *keptError) Error() string {
	if n := len(e.flows) - 1; n > 0 {
		return fmt.Sprintf("%v (and %d more)", e.first, n)
	}
	return e.first.Error()
}

func (e *keptError) Unwrap() error { return e.first }

// round does what there is to do, and tells in what time there is more; 0: when
// something changes.
func (f *Flows) round(ctx context.Context) (next time.Duration, err error) {
	f.takeIn()
	w, next := f.pending.due(time.Now(), f.resetTCP)
	var kept *keptError
	if err = f.end(ctx, w); err != nil {
		err = fmt.Errorf("end stale flows: %w", err)
		if !errors.As(err, &kept) {
			return 0, err
		}
	}
	f.pending.done(w, f.resetTCP, time.Now())
	if kept != nil {
		f.pending.keep(w, kept.flows)
	}
	return next, err
}

// takeIn brings the table up to date, and tells whether it was not.
func (f *Flows) takeIn() bool {
	f.mu.Lock()
	queue := f.queue
	f.queue = nil
	f.mu.Unlock()
	for _, c := range queue {
		f.pending.take(c, time.Now())
	}
	return len(queue) > 0
}

// end returns a *keptError if that is all that failed.
func (f *Flows) end(ctx context.Context, w *work) error {
	stale, err := f.find(ctx, w)
	if err != nil || len(stale) == 0 {
		return err
	}
	if err := f.catchUp(ctx, w); err != nil {
		return err
	}
	before := f.Stats()
	var kept keptError
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
			kept.flows, kept.first = append(kept.flows, fl), cmp.Or(kept.first, err)
			continue
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
	if len(kept.flows) > 0 {
		return &kept
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
	if f.takeIn() {
		f.wakeUp() // it may ask for more
	}
	w.renew(f.pending)
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
	seen := map[flow]bool{} // one may be in two answers
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
		for _, fl := range found {
			if !seen[fl] {
				seen[fl], stale = true, append(stale, fl)
			}
		}
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
