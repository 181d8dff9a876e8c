package loop

import (
	"context"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// How long endpoints may take to be in a slice again, and how long a round waits for several
// Services at most.
const (
	refill     = 3 * time.Millisecond
	refillMost = 10 * time.Millisecond
)

// emptied is a Service that has lost its last endpoint of a family.
type emptied struct {
	at   time.Time
	lost families
}

// families are IPv4 and IPv6.
type families [2]bool

func (f families) within(all families) bool { return (!f[0] || all[0]) && (!f[1] || all[1]) }

// ofSlice is the Service that a change of a slice is about; zero: it is of something else.
func ofSlice(c objects.Change) objects.Name {
	switch {
	case c.Slice != nil:
		return c.Slice.Service
	case c.Gone != nil && c.Gone.Kind == objects.KindSlice:
		return c.Gone.Service
	}
	return objects.Name{}
}

// served tells of which of its families a Service has an endpoint, in whatever state: one that
// is unready has not gone, and does not come back in a moment. It is called with mu held.
func (l *Loop) served(name objects.Name) (has families) {
	var want families
	for _, a := range l.snap.Services[name].ClusterIPs {
		want[family(a.Is6())] = true
	}
	for _, s := range l.snap.Slices[name] {
		for _, e := range s.Endpoints {
			if want.within(has) {
				return has
			}
			f := family(e.Addr.Is6())
			has[f] = has[f] || want[f]
		}
	}
	return has
}

func family(v6 bool) int { return map[bool]int{true: 1}[v6] }

// noteEmptied compares with what a Service had before a change. It is called with mu held.
func (l *Loop) noteEmptied(name objects.Name, before families) {
	now := l.served(name)
	was, waits := l.emptied[name]
	switch lost := (families{before[0] && !now[0], before[1] && !now[1]}); {
	case lost != families{}:
		l.emptied[name] = emptied{time.Now(), families{lost[0] || was.lost[0], lost[1] || was.lost[1]}}
	case waits && was.lost.within(now):
		delete(l.emptied, name)
	}
}

// awaitRefill waits until no Service has been emptied for less than refill.
func (l *Loop) awaitRefill(ctx context.Context) {
	if !l.known { // what is not served yet refuses either way
		return
	}
	for end := time.Now().Add(refillMost); ; {
		left := time.Until(l.refilled(end))
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		case <-l.wake: // it may be refilled; the round takes along what came
		}
	}
}

// refilled is when what has been emptied is to be taken for empty.
func (l *Loop) refilled(end time.Time) (when time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.emptied {
		if at := e.at.Add(refill); at.After(when) {
			when = at
		}
	}
	if when.After(end) {
		return end
	}
	return when
}
