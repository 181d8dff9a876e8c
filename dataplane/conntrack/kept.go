package conntrack

import (
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// kept are stale flows that the kernel does not delete: those that a device or a flowtable
// forwards (EBUSY, Linux 4.16 to 6.3). Each is tried by itself, less and less often: no walk
// has to find it again, and nothing waits for it.
type kept map[flow]nextTry // by the flow without its state

// nextTry is when one is tried.
type nextTry struct {
	flow  flow
	at    time.Time
	pause time.Duration // before it
}

func stateless(f flow) flow {
	f.state = 0
	return f
}

// add notes a flow that is there still, and tells whether that is news.
func (k kept) add(f flow, now time.Time) bool {
	a, known := k[stateless(f)]
	if known && a.at.After(now) {
		return false // a walk met it
	}
	pause := max(longer(a.pause), retryFirst)
	k[stateless(f)] = nextTry{f, now.Add(pause), pause}
	return !known
}

func (k kept) drop(f flow) { delete(k, stateless(f)) }

// due are those to be tried now, but for what waits: that is put off.
func (k kept) due(now time.Time, waits func(flow) bool) (out []flow) {
	for key, a := range k {
		switch {
		case a.at.After(now):
		case waits(a.flow):
			a.at = now.Add(a.pause)
			k[key] = a
		default:
			out = append(out, a.flow)
		}
	}
	return out
}

// any tells whether one is to be tried now.
func (k kept) any(now time.Time) bool {
	for _, a := range k {
		if !a.at.After(now) {
			return true
		}
	}
	return false
}

// next is in what time one is to be tried; 0: there are none.
func (k kept) next(now time.Time) (next time.Duration) {
	for _, a := range k {
		if left := max(a.at.Sub(now), 1); next == 0 || left < next {
			next = left
		}
	}
	return next
}

// waits tells whether nobody can judge a flow yet: the kernel refused the frontend that it
// belongs to, or its endpoint was back and has been gone again for less than the grace time.
// (TCP endpoints of refused frontends are no gone ones: setAside.)
func (w *work) waits(f flow, grace time.Duration, now time.Time) bool {
	if f.protocol == objects.UDP {
		return w.table.isAside(place{f.protocol, f.dst})
	}
	since, gone := w.gone[f.from]
	return gone && now.Sub(since) < grace
}

// judgeKept decides about a flow that was stale, by the rules of now. No claim has to tell
// whose it was.
func (w *work) judgeKept(f flow) verdict {
	switch {
	case f.protocol == objects.TCP && w.table.users[f.from] == 0:
		return endTCP(f)
	case f.protocol == objects.UDP && w.stale(claim{now: w.table.find(place{f.protocol, f.dst}), between: places{f.from: true}}, f):
		return remove
	}
	return keep
}
