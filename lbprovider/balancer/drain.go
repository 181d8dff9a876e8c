package balancer

import (
	"context"
	"maps"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// leave notes which servers a change is going to take away with their node, and takes off
// the notes those whose node is wanted (again). It comes before the change: of a reload that
// is said to have failed, a new worker may yet come, and know nothing of them. Servers of a
// port or a family that goes while the node stays have no such end: their connections live
// as long as the workers that had them (hard-stop-after). So do those of a node that left,
// was wanted again by a change that failed, and is not wanted any more.
func (b *Balancer) leave(now haproxy.Running, cfg haproxy.Config) {
	wanted := map[string]bool{}
	for _, l := range cfg.LB.Listeners {
		for _, s := range l.Servers {
			wanted[s.Node] = true
		}
	}
	b.set(func() {
		if b.leaving == nil {
			b.leaving = map[string]bool{}
		}
		for _, s := range now.Servers {
			b.leaving[s.ID()] = true
		}
		maps.DeleteFunc(b.leaving, func(id string, _ bool) bool { return wanted[haproxy.NodeOf(id)] })
		maps.DeleteFunc(b.drains, func(id string, _ time.Time) bool { return wanted[haproxy.NodeOf(id)] })
	})
}

// drain counts from now for those that left. A provider that starts anew begins to count
// anew; what only workers of earlier reloads still have of a server it does not know, and
// these end after hard-stop-after.
func (b *Balancer) drain() {
	due := time.Now().Add(b.cfg.Profile.Drain)
	b.set(func() {
		if b.drains == nil {
			b.drains = map[string]time.Time{}
		}
		for id := range b.leaving {
			if _, known := b.drains[id]; !known {
				b.drains[id] = due
			}
		}
		b.leaving = nil
	})
}

// drainRetry is the wait after a try that failed.
const drainRetry = 10 * time.Second

// beginDrain says whether it has servers due that nobody deals with; the caller does from
// here on, by endDrain.
func (b *Balancer) beginDrain(at time.Time) (begun bool) {
	b.set(func() {
		begun = !b.ending && len(b.dueDrains(at)) > 0
		b.ending = b.ending || begun
	})
	return begun
}

// dueDrains is called with mu held.
func (b *Balancer) dueDrains(at time.Time) (out []string) {
	for id, when := range b.drains {
		if !at.Before(when) {
			out = append(out, id)
		}
	}
	return out
}

// endDrain leaves to a later look what fails.
func (b *Balancer) endDrain(ctx context.Context, at time.Time) {
	defer b.set(func() { b.ending = false })
	defer b.lock()()
	var due []string
	b.set(func() { due = b.dueDrains(at) })
	c := b.client()
	for _, id := range due {
		if err := c.Drop(ctx, id); err != nil {
			if ctx.Err() == nil {
				b.cfg.Log.Warn("connections of a node that was removed live on", "instance", b.name, "server", id, "retry in", drainRetry, "err", err)
			}
			again := time.Now().Add(drainRetry)
			b.set(func() {
				for _, id := range b.dueDrains(at) {
					b.drains[id] = again
				}
			})
			return
		}
		b.cfg.Log.Info("connections of a node that was removed are ended", "instance", b.name, "server", id, "after", b.cfg.Profile.Drain)
		b.set(func() { delete(b.drains, id) })
	}
}
