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

// After a walk of the kernel's table Run rests for so many times as long, at most for
// restMost: while one change follows another, walks of up to 50 ms take a twentieth of a
// processor (doc.go has what a walk takes). The first after a rest begins at once.
const (
	restFactor = 19
	restMost   = time.Second
)

// Run ends stale flows until ctx does, and frees the socket. The kernel's table stays as
// it is then.
func (f *Flows) Run(ctx context.Context) error {
	delay, waits := retryFirst, false
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.kernel.close()
		case <-f.wake:
			if waits { // the next round takes it along
				f.takeIn()
				continue
			}
		case <-again.C:
		}
		next, err := f.round(ctx)
		if err != nil {
			if ctx.Err() == nil {
				f.failures.Add(1)
				f.log.Error("stale flows not ended, will retry", "err", err)
			}
			next, delay, waits = delay, longer(delay), true
		} else {
			delay, waits = retryFirst, f.walked > 0
			if waits {
				next = rest(f.walked) // the round after it says what comes later
			}
		}
		if next > 0 {
			again.Reset(next)
		}
	}
}

func longer(delay time.Duration) time.Duration { return min(2*delay, retryMost) }

func rest(walked time.Duration) time.Duration { return min(restFactor*walked, restMost) }

// round does what there is to do, and tells in what time there is more; 0: when
// something changes.
func (f *Flows) round(ctx context.Context) (next time.Duration, err error) {
	f.takeIn()
	w, next := f.pending.due(time.Now(), f.resetTCP)
	if err := f.end(ctx, w); err != nil {
		return 0, fmt.Errorf("end stale flows: %w", err)
	}
	f.pending.done(w, f.resetTCP, time.Now())
	if again := f.kept.next(time.Now()); next == 0 || 0 < again && again < next {
		next = again
	}
	return next, nil
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

// end deletes what is stale: of the flows that due work asks for, and of those that the kernel
// has kept until now.
func (f *Flows) end(ctx context.Context, w *work) error {
	stale, err := f.find(ctx, w)
	done := ended{now: time.Now()}
	if err != nil || len(stale) == 0 && !f.kept.any(done.now) {
		return err
	}
	if err := f.catchUp(ctx, w); err != nil {
		return err
	}
	defer f.tell(&done)
	for _, fl := range stale {
		what := w.judge(fl) // by rules that came meanwhile
		if what == keep {
			continue
		}
		if err := done.fail(f.delete(ctx, fl, what, &done)); err != nil {
			return err
		}
	}
	waits := func(fl flow) bool { return f.pending.waits(fl, f.resetTCP, done.now) }
	for _, fl := range f.kept.due(done.now, waits) {
		if err := done.fail(f.tryAgain(ctx, w, fl, &done)); err != nil {
			return err
		}
	}
	return done.failed
}

// ended is what came of a round.
type ended struct {
	now             time.Time
	deleted, silent int
	busy, new       int   // that the kernel keeps, and those of them that it did not before
	mute, kept      error // the first of each
	failed          error // the first of those that concern one flow
}

// fail returns what ends the round: the kernel's answer about one flow does not.
func (e *ended) fail(err error) error {
	if errno := unix.Errno(0); !errors.As(err, &errno) {
		return err
	}
	e.failed = cmp.Or(e.failed, err)
	return nil
}

// tryAgain deletes what the kernel kept, if it is stale as it is by now: a connection that
// closes by itself is often one that the kernel would delete at last.
func (f *Flows) tryAgain(ctx context.Context, w *work, fl flow, done *ended) error {
	now, there, err := f.kernel.read(ctx, fl)
	if err != nil {
		return err
	}
	what := keep
	if there && stateless(now) == stateless(fl) {
		what = w.judgeKept(now)
	}
	if what == keep {
		f.kept.drop(fl)
		return nil
	}
	return f.delete(ctx, now, what, done)
}

func (f *Flows) delete(ctx context.Context, fl flow, what verdict, done *ended) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	there, err := f.kernel.remove(ctx, fl)
	if errors.Is(err, unix.EBUSY) {
		done.busy++
		if f.kept.add(fl, done.now) {
			done.new, done.kept = done.new+1, cmp.Or(done.kept, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	f.kept.drop(fl)
	if !there {
		return nil
	}
	if fl.dst.Addr().Is6() {
		f.deletedIPv6.Add(1)
	} else {
		f.deletedIPv4.Add(1)
	}
	done.deleted++
	if what != reset {
		return nil
	}
	if err := f.kernel.reset(ctx, fl); err != nil {
		f.silent.Add(1)
		done.silent, done.mute = done.silent+1, cmp.Or(done.mute, err)
		return nil
	}
	f.resets.Add(1)
	return nil
}

// tell logs a round. A flow that cannot be reset is not there any more: there is nothing to
// try again.
func (f *Flows) tell(done *ended) {
	if done.mute != nil {
		f.log.Warn("connections not reset; their sides learn of it when they send", "connections", done.silent, "first", done.mute)
	}
	if done.new > 0 {
		f.log.Warn("the kernel keeps stale flows, will try again", "flows", done.new, "first", done.kept)
	}
	if done.busy > 0 {
		f.failures.Add(1)
	}
	if done.deleted > 0 {
		f.log.Info("stale flows deleted", "flows", done.deleted)
	}
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

// find asks the kernel for flows and returns those that are stale.
func (f *Flows) find(ctx context.Context, w *work) ([]flow, error) {
	f.walked = 0
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
	defer func(begin time.Time) { f.walked += time.Since(begin) }(time.Now())
	err = f.kernel.dump(ctx, q, f.plain, func(fl flow) {
		f.seen.Add(1)
		unasked = unasked || !q.matches(fl)
		if w.judge(fl) != keep {
			stale = append(stale, fl)
		}
	})
	return stale, unasked && !f.plain, err
}
