package balancer

import (
	"context"
	"time"

	"github.com/plumbline/plumbline/lbprovider/instance"
)

const (
	// reviveEvery times reviveLooks is for Docker to show what becomes of a
	// container that ended: it tells of the end before its list shows it.
	// Looks are counted, not time, because each waits for the lock.
	reviveEvery = 250 * time.Millisecond
	reviveLooks = 20
	// reviveMaxWait bounds the wait between two tries that failed.
	reviveMaxWait = 30 * time.Second
)

// revive looks after a load balancer that ended or was removed, until it was
// looked at reviveLooks times since the last such event. Docker, or what watches
// over processes, restarts one that crashed; one that stays ended (docker kill)
// or is not there any more (docker rm) is started anew, as long as its Service has
// one. What fails is tried again until ctx ends.
func (b *Balancer) revive(ctx context.Context) {
	if !b.beginRevive() {
		return // the one that runs goes on for longer
	}
	wait := reviveEvery
	for ctx.Err() == nil {
		if err := b.reviveOnce(ctx); err == nil {
			if !b.lookAgain() {
				return
			}
			wait = reviveEvery
		} else {
			wait = min(2*wait, reviveMaxWait)
			b.cfg.Log.Error("load balancer that ended is not back", "instance", b.name, "retry in", wait, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (b *Balancer) beginRevive() (first bool) {
	b.set(func() {
		first = !b.reviving
		b.reviving, b.looks = true, reviveLooks
	})
	return first
}

func (b *Balancer) lookAgain() (again bool) {
	b.set(func() {
		b.looks--
		again = b.looks > 0
		b.reviving = again
	})
	return again
}

// reviveOnce starts it if it should run and nobody else will start it. The
// files in the load balancer's directory are still right: all servers begin
// DOWN.
func (b *Balancer) reviveOnce(ctx context.Context) error {
	defer b.lock()()
	i, exists, err := b.find(ctx)
	if err != nil {
		return err
	}
	var spec instance.Spec
	var ended error
	b.set(func() {
		if exists && b.spec.Name == "" { // before Sweep; it may be gone at the next look
			b.spec = b.specOf(i)
		}
		spec, ended = b.spec, b.ended
	})
	if ended != nil || spec.Name == "" || exists && !i.Stopped {
		return nil
	}
	b.cfg.Log.Info("load balancer was stopped and is started again", "lb", spec.Service, "instance", b.name, "removed", !exists)
	if err := b.cfg.Instances.Stop(ctx, b.name); err != nil {
		return err
	}
	if err := b.dir.make(); err != nil {
		return err
	}
	return b.cfg.Instances.Start(ctx, spec)
}
