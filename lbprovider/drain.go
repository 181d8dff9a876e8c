package lbprovider

import (
	"context"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// drain notes which servers leave now, and takes off the note those that are wanted again. A
// provider that starts anew begins to count anew; what only workers of earlier reloads still
// have of a server it does not know, and these end after hard-stop-after.
func (b *balancer) drain(name string, now haproxy.Running, cfg haproxy.Config) {
	due := time.Now().Add(b.Profile.Drain)
	b.note(name, func(m *memory) {
		if m.drains == nil {
			m.drains = map[string]time.Time{}
		}
		for id := range haproxy.Wanted(cfg) {
			delete(m.drains, id)
		}
		for _, id := range haproxy.Gone(now, cfg) {
			if _, known := m.drains[id]; !known {
				m.drains[id] = due
			}
		}
	})
}

// drainEvery is how often endDrains looks; connections live that much longer at most.
const drainEvery = time.Second

// endDrains ends the connections of servers that were removed Profile.Drain ago, until ctx
// ends.
func (b *balancer) endDrains(ctx context.Context) {
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			for _, name := range b.draining(at) {
				b.endDrain(ctx, name, at)
			}
		}
	}
}

// draining are the load balancers that have servers due.
func (b *balancer) draining(at time.Time) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, m := range b.known {
		if len(m.due(at)) > 0 {
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

// endDrain asks again at the next look where it fails.
func (b *balancer) endDrain(ctx context.Context, name string, at time.Time) {
	defer b.lock(name)()
	var due []string
	b.note(name, func(m *memory) { due = m.due(at) })
	c := haproxy.NewClient(b.dir(name).path)
	for _, id := range due {
		if err := c.Drop(ctx, id); err != nil {
			b.Log.Warn("connections of a node that was removed live on", "instance", name, "server", id, "err", err)
			return
		}
		b.Log.Info("connections of a node that was removed are ended", "instance", name, "server", id, "after", b.Profile.Drain)
		b.note(name, func(m *memory) { delete(m.drains, id) })
	}
}
