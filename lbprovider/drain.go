package lbprovider

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// leave notes which servers a change is going to take away with their node, and takes off
// the notes those whose node is wanted (again). It comes before the change: of a reload that
// is said to have failed, a new worker may yet come, and know nothing of them. Servers of a
// port or a family that goes while the node stays have no such end: their connections live
// as long as the workers that had them (hard-stop-after). So do those of a node that left,
// was wanted again by a change that failed, and is not wanted any more.
func (b *balancer) leave(name string, now haproxy.Running, cfg haproxy.Config) {
	wanted := map[string]bool{}
	for _, l := range cfg.LB.Listeners {
		for _, s := range l.Servers {
			wanted[s.Node] = true
		}
	}
	b.note(name, func(m *memory) {
		if m.leaving == nil {
			m.leaving = map[string]bool{}
		}
		for _, s := range now.Servers {
			m.leaving[s.ID()] = true
		}
		maps.DeleteFunc(m.leaving, func(id string, _ bool) bool { return wanted[haproxy.NodeOf(id)] })
		maps.DeleteFunc(m.drains, func(id string, _ time.Time) bool { return wanted[haproxy.NodeOf(id)] })
	})
}

// drain counts from now for those that left. A provider that starts anew begins to count
// anew; what only workers of earlier reloads still have of a server it does not know, and
// these end after hard-stop-after.
func (b *balancer) drain(name string) {
	due := time.Now().Add(b.Profile.Drain)
	b.note(name, func(m *memory) {
		if m.drains == nil {
			m.drains = map[string]time.Time{}
		}
		for id := range m.leaving {
			if _, known := m.drains[id]; !known {
				m.drains[id] = due
			}
		}
		m.leaving = nil
	})
}

const (
	// drainEvery is how often endDrains looks; connections live that much longer at most.
	drainEvery = time.Second
	// drainRetry is the wait after a try that failed.
	drainRetry = 10 * time.Second
)

// endDrains ends the connections of servers that were removed Profile.Drain ago, until ctx
// ends. A load balancer that does not answer keeps no other waiting.
func (b *balancer) endDrains(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			for _, name := range b.draining(at) {
				wg.Go(func() {
					b.endDrain(ctx, name, at)
					b.note(name, func(m *memory) { m.ending = false })
				})
			}
		}
	}
}

// draining are the load balancers that have servers due and that nobody deals with; the
// caller does from here on.
func (b *balancer) draining(at time.Time) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range b.known {
		if !m.ending && len(m.due(at)) > 0 {
			m.ending = true
			out = append(out, name)
		}
	}
	return out
}

// due is called with balancer.mu held.
func (m *memory) due(at time.Time) (out []string) {
	for id, when := range m.drains {
		if !at.Before(when) {
			out = append(out, id)
		}
	}
	return out
}

// endDrain leaves to a later look what fails.
func (b *balancer) endDrain(ctx context.Context, name string, at time.Time) {
	defer b.lock(name)()
	var due []string
	b.note(name, func(m *memory) { due = m.due(at) })
	c := haproxy.NewClient(b.dir(name).path)
	for _, id := range due {
		if err := c.Drop(ctx, id); err != nil {
			if ctx.Err() == nil {
				b.Log.Warn("connections of a node that was removed live on", "instance", name, "server", id, "retry in", drainRetry, "err", err)
			}
			again := time.Now().Add(drainRetry)
			b.note(name, func(m *memory) {
				for _, id := range m.due(at) {
					m.drains[id] = again
				}
			})
			return
		}
		b.Log.Info("connections of a node that was removed are ended", "instance", name, "server", id, "after", b.Profile.Drain)
		b.note(name, func(m *memory) { delete(m.drains, id) })
	}
}
