//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// steadyRate is how many endpoints are replaced a second where a dataplane is to follow
// all the time, each of another Service.
const steadyRate = 200

// await knows endpoints that were written at the API, until a commit of the kernel has a
// rule or an element with their address: an attribute is aligned to four bytes, and in each
// dataplane's the address is on such a place.
type await struct {
	mu        sync.Mutex
	written   map[uint32]change // guarded by mu; by address
	latest    map[int]uint32    // guarded by mu; by Service: its address that is awaited
	seen      []uint32          // guarded by mu; since the last commit
	took      []time.Duration   // guarded by mu
	coalesced int               // guarded by mu; not seen before the Service's next
}

type change struct {
	service int
	edit    edit
	at      time.Time
}

func newAwait() *await { return &await{written: map[uint32]change{}, latest: map[int]uint32{}} }

func number4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

// write notes that a Service gets an endpoint, before the API is told.
func (a *await) write(service int, e edit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, waits := a.latest[service]; waits {
		delete(a.written, old)
		a.coalesced++
	}
	n := number4(e.fresh[0])
	a.written[n], a.latest[service] = change{service, e, time.Now()}, n
}

// awaited is what was written and not seen yet.
type awaited struct {
	number uint32
	edit   edit
}

func (a *await) awaited(out []awaited) []awaited {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, c := range a.written {
		out = append(out, awaited{n, c.edit})
	}
	return out
}

func (a *await) look(attributes []byte) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for ; len(attributes) >= 4; attributes = attributes[4:] {
		n := binary.NativeEndian.Uint32(attributes)
		if _, waits := a.written[n]; waits {
			a.seen = append(a.seen, n)
		}
	}
}

func (a *await) committed(now time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.seen {
		a.has(n, now)
	}
	a.seen = a.seen[:0]
}

// found notes an address that the kernel has.
func (a *await) found(n uint32, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.has(n, now)
}

// has wants mu.
func (a *await) has(n uint32, now time.Time) {
	if c, waits := a.written[n]; waits {
		delete(a.written, n)
		delete(a.latest, c.service)
		a.took = append(a.took, now.Sub(c.at))
	}
}

func (a *await) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.written)
}

// Steady is what came of changes at a rate.
type Steady struct {
	Spread    Spread // write at the API -> commit of the kernel
	Coalesced int    // of those that are missing: the Service's next change came first
	Rate      float64
}

// String is the spread, with what is missing of it.
func (s Steady) String() string {
	if s.Spread.Of == 0 || s.Coalesced == 0 {
		return s.Spread.String()
	}
	return fmt.Sprintf("%s, %d coalesced", s.Spread, s.Coalesced)
}

// steady replaces endpoints at a rate, of all Services with node ports in turn, and waits
// until the kernel has all of them.
func (s *subject) steady(ctx context.Context) (err error) {
	if s.row.Shows == nowhere || s.cfg.Steady == 0 {
		return nil
	}
	defer holdGarbage()()
	a := newAwait()
	if err := errors.Join(s.kernel.reset(edit{}), s.kernel.look(a)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.kernel.look(nil)) }()
	total := int(steadyRate * s.cfg.Steady.Seconds())
	begin := time.Now()
	for k := range total {
		i := 1 + k%min(s.n-1, nodePorts)
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(k) * time.Second / steadyRate))):
		case <-ctx.Done():
			return ctx.Err()
		}
		next, e := s.w.edit(i)
		a.write(i, e)
		if err := s.w.api.Apply(next); err != nil {
			return err
		}
	}
	rate := float64(total) / time.Since(begin).Seconds()
	err = s.await(ctx, begin.Add(s.cfg.Steady+s.cfg.Limit), func() (bool, error) { return a.left() == 0, s.kernel.failed() })
	a.mu.Lock()
	defer a.mu.Unlock()
	s.out.Steady = Steady{Spread: spread(a.took, total), Coalesced: a.coalesced, Rate: rate}
	if errors.Is(err, errLimit) {
		return nil // of how many is in the result
	}
	return errors.Join(err, s.kernel.failed())
}
