package conntrack

import (
	"maps"
	"net/netip"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// work is what changes leave to be done in the kernel's table.
type work struct {
	table  *table
	taken  int                          // changes so far
	asked  int                          // those that the last walk was for
	claims map[place]claim              // UDP: destinations that may have stale flows; TCP: gone ones
	gone   map[netip.AddrPort]time.Time // TCP: endpoints that no frontend names any more, and since when
	// full: every UDP flow is judged, also those of destinations that did not
	// change, and closed are the ClusterIPs, whose other ports nobody serves.
	full   bool
	closed map[netip.Addr]bool
	fullOf int // the change that asked for it

	serving map[*plan.Frontend]places // of the frontends that flows were looked at of
}

func newWork(t *table) *work {
	return &work{table: t, claims: map[place]claim{}, gone: map[netip.AddrPort]time.Time{}, serving: map[*plan.Frontend]places{}}
}

// take brings the table from a change's old plan to its new one, and adds what that leaves
// to be done. A nil old stands for what the table held; new is then complete.
func (w *work) take(c change, now time.Time) {
	t, old, new := w.table, c.old, c.new
	w.taken++
	if old == nil {
		w.full, w.fullOf, w.closed = true, w.taken, clusterIPs(new)
		old = t.plan()
	}
	fronts := t.differences(old.Without(c.refused), new.Without(c.refused))
	aside, taken := t.aside, t.taken(c.refused)
	t.setAside(fronts, new, c.refused)
	touched := t.touched(fronts, taken, t.node.Addrs, new.Node.Addrs)
	was, wasAside := make(map[place]*plan.Frontend, len(touched)), map[place]bool{}
	for p := range touched {
		was[p], wasAside[p] = t.find(p), t.isAmong(aside, p)
	}
	before := t.replace(new.Node, fronts)
	for p := range touched {
		c := newClaim(was[p], t.find(p))
		c.all = c.all || wasAside[p] // nobody knows by which rules its flows came
		c.at, c.number = now, w.taken
		w.note(p, c)
	}
	w.noteGone(before, fronts, now)
}

// note keeps a claim that has doubts.
func (w *work) note(p place, c claim) {
	first, waits := w.claims[p]
	switch {
	case p.protocol == objects.TCP:
		if c.now == nil && c.was != nil {
			w.claims[p] = c // its connections are to be known as ours still
		}
	case waits:
		w.claims[p] = w.after(first, c)
	case c.all || len(c.lost) > 0:
		w.claims[p] = c
	}
}

// after is the claim of a change that follows others. What it leaves in doubt since the last
// walk was begun is all that is left of it when that has ended.
func (w *work) after(first, c claim) claim {
	out := c.after(first)
	switch {
	case first.number <= w.asked:
		out.since = &c
	case first.since != nil:
		since := c.after(*first.since)
		out.since = &since
	}
	return out
}

// noteGone keeps the TCP endpoints that no frontend names any more.
func (w *work) noteGone(before, after map[plan.Key]*plan.Frontend, now time.Time) {
	for k, f := range before {
		if k.Protocol != objects.TCP {
			continue
		}
		for a := range named(f) {
			if _, known := w.gone[a]; !known && w.table.users[a] == 0 {
				w.gone[a] = now
			}
		}
		for a := range named(after[k]) {
			delete(w.gone, a) // it is back
		}
	}
}

// due is what is to be done now: everything but endpoints that have not been gone for the
// grace time, and frontends that are set aside. next is when there is more; 0: not by itself.
func (w *work) due(now time.Time, grace time.Duration) (out *work, next time.Duration) {
	out = newWork(w.table)
	w.asked = w.taken
	out.taken, out.full, out.closed = w.taken, w.full, w.closed
	for p, c := range w.claims {
		if !w.table.isAside(p) {
			out.claims[p] = c
		}
	}
	for a, since := range w.gone {
		left := since.Add(grace).Sub(now)
		if left <= 0 {
			out.gone[a] = since
		} else if next == 0 || left < next {
			next = left
		}
	}
	return out, next
}

// renew brings due work up to date with changes that came meanwhile. What else they ask for
// is for the next round.
func (w *work) renew(all *work) {
	for p := range w.claims {
		w.claims[p] = all.claims[p]
	}
	maps.DeleteFunc(w.gone, func(a netip.AddrPort, since time.Time) bool { return all.gone[a] != since })
}

// done takes away what was due. Claims of TCP frontends are kept as long as an endpoint of
// theirs may be waited for.
func (w *work) done(due *work, grace time.Duration, now time.Time) {
	maps.DeleteFunc(w.gone, func(a netip.AddrPort, since time.Time) bool { return due.gone[a] == since })
	oldest := now
	for _, since := range w.gone {
		if since.Before(oldest) {
			oldest = since
		}
	}
	for p, c := range w.claims {
		_, looked := due.claims[p]
		switch {
		case p.protocol == objects.TCP:
			if oldest.Sub(c.at) > grace {
				delete(w.claims, p)
			}
		case w.table.isAside(p) || !looked:
		case c.number <= due.taken:
			delete(w.claims, p)
		case c.since != nil:
			w.claims[p] = *c.since
		}
	}
	if w.fullOf <= due.taken {
		w.full, w.closed = false, nil
	}
}
