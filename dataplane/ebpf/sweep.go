package ebpf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

// Every sweepEvery, and more often where a map is crowded, what has ended is deleted, some entries at a time with a pause after each: 2^18
// entries take some three seconds, a twentieth of which the processor is busy, and a second or two
// more where all have ended (BenchmarkSweep).
const (
	sweepEvery = 30 * time.Second
	sweepSoon  = 5 * time.Second // while a map is crowded
	sweepSome  = 1024
	sweepPause = 10 * time.Millisecond
)

// A map is crowded from crowdedFrom hundredths of its size on, until it is below crowdedUntil.
const (
	crowdedFrom  = 90
	crowdedUntil = 80
)

// Use is how much a map holds of what the programs remember: connections, clients with affinity,
// fragments; and of sockets what was sent without connect, and UDP that is connected. When it is full the entry that was not used for the longest time goes, though it may
// be of an open connection: what has ended takes room like anything else until it is swept.
type Use struct {
	Map           string
	Entries, Size int
	found         int // before what had ended was deleted
	crowded       bool
}

// Uses are those of the last sweep, by name; empty before the first one.
func (t *Target) Uses() []Use {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.uses)
}

// Crowded has a line for each map that a sweep has found nearly full: at 90 % of its size, what had
// ended among it, until it is below 80 %. The line is the same all that time.
func (t *Target) Crowded() (out []string) {
	for _, u := range t.Uses() {
		if u.crowded {
			out = append(out, fmt.Sprintf("map %s is nearly full: of its %d entries %d %% were taken, and since never fewer than %d %%; when it is full, what was not used for the longest time is forgotten, open connections too", u.Map, u.Size, crowdedFrom, crowdedUntil))
		}
	}
	return out
}

// sweeps deletes what has ended until ctx does. It is beside everything else: programs take an entry
// that has ended for one that is not there, so nothing waits for this but the room.
func (t *Target) sweeps(ctx context.Context) error {
	for {
		if err := t.sweep(ctx, sweepPause); err != nil && ctx.Err() == nil {
			t.log.Warn("what has ended stays in the maps", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(t.nextSweep()):
		}
	}
}

// besideStill looks once more for connections elsewhere: of those that began while the programs came.
func (t *Target) besideStill(ctx context.Context, flows *ebpf.Map) error {
	t.mu.Lock()
	due := t.others
	t.others = false
	t.mu.Unlock()
	if !due {
		return nil
	}
	err := t.keepOff(ctx, flows)
	if err != nil { // by the next sweep
		t.mu.Lock()
		t.others = true
		t.mu.Unlock()
	}
	return err
}

func (t *Target) nextSweep() time.Duration {
	if len(t.Crowded()) > 0 {
		return sweepSoon
	}
	return sweepEvery
}

// sweep goes through the maps once; before the first Apply there is nothing to do.
func (t *Target) sweep(ctx context.Context, pause time.Duration) error {
	m, err := t.remembering()
	if err != nil || m == nil {
		return err
	}
	defer closeAll(m...)
	uses := make([]Use, len(m))
	err = t.besideStill(ctx, m[1])
	err = errors.Join(err,
		sweepMap(ctx, pause, m[0], affinityEnded, &uses[0]),
		sweepMap(ctx, pause, m[1], flowEnded, &uses[1]),
		sweepMap(ctx, pause, m[2], portsEnded, &uses[2]))
	if len(m) > 3 {
		err = errors.Join(err,
			sweepMap(ctx, pause, m[3], sentEnded, &uses[3]),
			sweepMap(ctx, pause, m[4], spokenEnded, &uses[4]))
	}
	if err == nil {
		t.used(uses)
	}
	return err
}

// remembering are second descriptors, which Close does not close, of the maps of clients, connections
// and fragments, and of sockets' two, if there are any.
func (t *Target) remembering() ([]*ebpf.Map, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return nil, nil
	}
	all := []*ebpf.Map{t.objs.PlumbAffinity, t.objs.PlumbFlows, t.objs.PlumbFrags}
	if t.socks != nil {
		all = append(all, t.socks.PlumbSent, t.socks.PlumbUdp)
	}
	out, err := cloned(all...)
	if err != nil {
		return nil, fmt.Errorf("sweep the maps: %w", err)
	}
	return out, nil
}

// cloned are second descriptors of maps; who gets them closes them.
func cloned(maps ...*ebpf.Map) (out []*ebpf.Map, err error) {
	for _, m := range maps {
		c, err := m.Clone()
		if err != nil {
			closeAll(out...)
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeAll(maps ...*ebpf.Map) {
	for _, m := range maps {
		_ = m.Close() // of a second descriptor; nil is closed
	}
}

// used keeps what a sweep has found that came to its end.
func (t *Target) used(uses []Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, u := range uses {
		was := i < len(t.uses) && t.uses[i].crowded
		uses[i].crowded = 100*u.found >= crowdedFrom*u.Size || was && 100*u.found >= crowdedUntil*u.Size
	}
	t.uses = uses
}

// sweepMap deletes the entries of a map that have ended, and counts the others. Each is looked at
// again at once before: a packet may have begun it anew. What begins in the microsecond between
// that and the deletion is lost, and begins anew once more; of TCP it has to be a new connection with
// the ports of one that ended long ago.
func sweepMap[K comparable, V any](ctx context.Context, pause time.Duration, m *ebpf.Map, ended func(K, V, uint64) bool, use *Use) error {
	use.Map, use.Size = name(m), int(m.MaxEntries())
	keys, vals := make([]K, sweepSome), make([]V, sweepSome)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, vals, nil)
		over := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !over {
			return fmt.Errorf("sweep map %s: %w", use.Map, err)
		}
		now := uptime()
		use.found += n
		for i := range n {
			if !ended(keys[i], vals[i], now) {
				use.Entries++
				continue
			}
			var v V
			if err := m.Lookup(keys[i], &v); err != nil || !ended(keys[i], v, now) {
				continue
			}
			if err := m.Delete(keys[i]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("sweep map %s: %w", use.Map, err)
			}
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
