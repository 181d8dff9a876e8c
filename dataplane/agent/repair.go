package agent

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// The pace of a repair.
const (
	repairPause = time.Second
	repairWord  = time.Minute
)

// repair has everything compared when somebody else changed what the agent keeps:
// at once, but not more often than once in repairPause, however often that
// happens. What comes in between is kept for the next time.
type repair struct {
	compare func() // does not block
	log     *slog.Logger
	asked   atomic.Uint64 // since the last comparison
	wake    chan struct{}
}

func newRepair(compare func(), log *slog.Logger) *repair {
	return &repair{compare: compare, log: log, wake: make(chan struct{}, 1)}
}

// ask does not block and may be called at any time.
func (r *repair) ask() {
	r.asked.Add(1)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run compares until ctx ends.
func (r *repair) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		if n := r.asked.Swap(0); n > 0 { // 0: answered by the last round already
			r.log.Warn("somebody else changed what this agent keeps in the kernel, comparing all of it")
			r.compare()
			r.follow(ctx, n-1)
		}
	}
}

// follow goes on as long as the changes do. more are those nobody has been told of.
func (r *repair) follow(ctx context.Context, more uint64) {
	pause, word := time.NewTicker(repairPause), time.NewTicker(repairWord)
	defer pause.Stop()
	defer word.Stop()
	tell := func(text string) {
		if more > 0 {
			r.log.Warn(text, "more", more)
		}
		more = 0
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-word.C:
			tell("somebody else goes on changing what this agent keeps in the kernel")
		case <-pause.C:
			n := r.asked.Swap(0)
			if n == 0 {
				tell("somebody else had changed more of what this agent keeps in the kernel")
				return
			}
			more += n
			r.compare()
		}
	}
}
