package lbprovider

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
func (b *balancer) revive(ctx context.Context, name string) {
	if !b.beginRevive(name) {
		return // the one that runs goes on for longer
	}
	wait := reviveEvery
	for ctx.Err() == nil {
		if err := b.reviveOnce(ctx, name); err == nil {
			if !b.lookAgain(name) {
				return
			}
			wait = reviveEvery
		} else {
			wait = min(2*wait, reviveMaxWait)
			b.Log.Error("load balancer that ended is not back", "instance", name, "retry in", wait, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (b *balancer) beginRevive(name string) (first bool) {
	b.note(name, func(m *memory) {
		first = !m.reviving
		m.reviving, m.looks = true, reviveLooks
	})
	return first
}

func (b *balancer) lookAgain(name string) (again bool) {
	b.note(name, func(m *memory) {
		m.looks--
		again = m.looks > 0
		m.reviving = again
	})
	return again
}

// reviveOnce starts name if it should run and nobody else will start it. The
// files in the load balancer's directory are still right: all servers begin
// DOWN.
func (b *balancer) reviveOnce(ctx context.Context, name string) error {
	defer b.lock(name)()
	i, exists, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	var spec instance.Spec
	var ended error
	b.note(name, func(m *memory) {
		if exists && m.spec.Name == "" { // before Sweep; it may be gone at the next look
			m.spec = b.specOf(i)
		}
		spec, ended = m.spec, m.ended
	})
	if ended != nil || spec.Name == "" || exists && !i.Stopped {
		return nil
	}
	b.Log.Info("load balancer was stopped and is started again", "lb", spec.Service, "instance", name, "removed", !exists)
	if err := b.Instances.Stop(ctx, name); err != nil {
		return err
	}
	if err := b.dir(name).make(); err != nil {
		return err
	}
	return b.Instances.Start(ctx, spec)
}
