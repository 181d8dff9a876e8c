package ebpf

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// most is how many entries wait at most: one more, and the oldest goes at once.
const most = 1 << 14

// grace deletes entries a while after the last frontend has led to them: a packet that found the
// frontend as it was finds them too, and what the kernel keeps them in is not given to others
// under its eyes. Its methods are for several goroutines at once.
type grace struct {
	after  time.Duration
	ledger *ledger
	log    *slog.Logger

	mu      sync.Mutex
	queue   []leftover          // guarded by mu; oldest first, some called off
	waiting map[entry]time.Time // guarded by mu; since when
	timer   *time.Timer         // guarded by mu; nil: nothing waits
}

// entry is one of a map, by its key.
type entry struct {
	m   *ebpf.Map
	key any
}

type leftover struct {
	entry
	since time.Time
}

func newGrace(after time.Duration, l *ledger, log *slog.Logger) *grace {
	return &grace{after: after, ledger: l, log: log, waiting: map[entry]time.Time{}}
}

// later deletes an entry in a while.
func (g *grace) later(m *ebpf.Map, key any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := leftover{entry{m, key}, time.Now()}
	if _, already := g.waiting[l.entry]; already {
		return
	}
	g.waiting[l.entry] = l.since
	g.queue = append(g.queue, l)
	if len(g.queue) > most {
		g.first()
	}
	if g.timer == nil {
		g.timer = time.AfterFunc(g.after, g.sweep)
	}
}

// keep calls the deletion of an entry off: it is written anew.
func (g *grace) keep(m *ebpf.Map, key any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		delete(g.waiting, entry{m, key})
	}
}

// first deletes the oldest. It is called with mu held.
func (g *grace) first() {
	l := g.queue[0]
	g.queue = g.queue[1:]
	if since, waits := g.waiting[l.entry]; !waits || since != l.since {
		return
	}
	delete(g.waiting, l.entry)
	if err := g.ledger.remove(l.m, l.key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		g.log.Warn("an entry that is nobody's stays until the maps are read back", "map", l.m.String(), "err", err)
	}
}

// sweep deletes what has waited long enough, and lets others take turns.
func (g *grace) sweep() {
	for g.due() {
	}
}

// due deletes one; it tells whether the next may be tried at once.
func (g *grace) due() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.timer = nil
		return false
	}
	if wait := g.after - time.Since(g.queue[0].since); wait > 0 {
		g.timer = time.AfterFunc(wait, g.sweep)
		return false
	}
	g.first()
	return true
}

// flush deletes everything that waits, and tells whether there was something.
func (g *grace) flush() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	had := len(g.waiting) > 0
	for len(g.queue) > 0 {
		g.first()
	}
	return had
}

// settle waits until everything has had its time, and deletes it.
func (g *grace) settle() {
	g.mu.Lock()
	wait := time.Duration(0)
	if n := len(g.queue); n > 0 {
		wait = g.after - time.Since(g.queue[n-1].since)
	}
	g.mu.Unlock()
	if wait > 0 {
		time.Sleep(wait)
	}
	g.flush()
}

// forget leaves what waits to the next who reads the maps back: they are about to be closed.
func (g *grace) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue, g.waiting = nil, map[entry]time.Time{}
}
