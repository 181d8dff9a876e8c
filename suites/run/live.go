package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/timeline"
)

// live has the states of a rollout while they are recorded, for each of its streams.
type live struct {
	tape    *tape.Tape
	streams []tape.Stream

	mu     sync.Mutex // guards the fields below
	states []*timeline.Timeline
	since  int64 // when the last act was begun
}

func newLive(t *tape.Tape, streams []tape.Stream) *live {
	l := &live{tape: t, streams: streams}
	for range streams {
		l.states = append(l.states, &timeline.Timeline{})
	}
	return l
}

// event keeps an event.
func (l *live) event(e record.Event) {
	l.tape.Event(e)
	l.add(e)
}

func (l *live) add(e record.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.streams {
		if s.Family == "" || e.Family == "" || e.Family == s.Family {
			l.states[i].Add(e)
		}
	}
}

// act notes that an act begins.
func (l *live) act() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = record.Now()
}

// now calls f with the states of each stream.
func (l *live) now(n scenario.Now, f func(scenario.Now)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.At, n.Since = record.Now(), l.since
	for _, states := range l.states {
		n.Timeline = states
		f(n)
	}
}

// first calls f with the states of the first stream.
func (l *live) first(n scenario.Now, f func(scenario.Now)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.At, n.Since, n.Timeline = record.Now(), l.since, l.states[0]
	f(n)
}

// askEvery is how often a condition is asked.
const askEvery = 20 * time.Millisecond

// await waits until a condition holds for every stream.
func (l *live) await(ctx context.Context, n scenario.Now, c scenario.Condition, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, is := time.Time{}, false
	for {
		all := true
		l.now(n, func(n scenario.Now) { all = all && c.Holds(n) })
		switch {
		case !all:
			is = false
		case !is:
			began, is = time.Now(), true
		}
		if is && time.Since(began) >= c.For {
			return nil
		}
		if err := kubewait.Pause(ctx, askEvery); err != nil {
			return fmt.Errorf("wait until %s: %w; as recorded: %s", c.Says, err, l.said(n))
		}
	}
}

// said is the states, for an error.
func (l *live) said(n scenario.Now) (text string) {
	l.now(n, func(n scenario.Now) {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("pods %v", n.Live(n.At))
		if n.Balanced {
			text += fmt.Sprintf(", UP at the load balancer %v", n.Up(n.At))
		}
	})
	return text
}

// follower reads what a load balancer's provider records, once.
type follower struct {
	lb   LB
	name string // the workload's
	from int64
	read int // of the provider's events
}

// server is one, in one of its IP families.
type server struct {
	node   string
	family record.Family
}

// next is what was recorded since; the first time behind the state that each server was in at the
// beginning.
func (f *follower) next() ([]record.Event, error) {
	all, err := f.lb.Events()
	if errors.Is(err, fs.ErrNotExist) { // it has not begun
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []record.Event
	initial := map[server]int{}
	for _, e := range all[f.read:] {
		if e.LB != f.name {
			continue
		}
		if f.read > 0 || e.At >= f.from {
			e.At = max(e.At, f.from)
			out = append(out, e)
			continue
		}
		if e.Kind != record.KindServer {
			continue
		}
		e.At, e.After = f.from, 0
		of := server{e.Node, e.Family}
		if i, seen := initial[of]; seen {
			out[i] = e
			continue
		}
		initial[of] = len(out)
		out = append(out, e)
	}
	f.read = len(all)
	return out, nil
}

// followEvery is how often the provider's records are read.
const followEvery = 50 * time.Millisecond

// follow keeps what the load balancer records until ctx ends.
func (f *follower) follow(ctx context.Context, l *live) error {
	for {
		events, err := f.next()
		if err != nil {
			return err
		}
		l.tape.Balancer(events, nil)
		for _, e := range events {
			l.add(e)
		}
		if ctx.Err() != nil { // this was the last of it
			return nil
		}
		_ = kubewait.Pause(ctx, followEvery) // it ends at once with ctx
	}
}
