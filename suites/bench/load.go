//go:build linux

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Load is what came of many connections.
type Load struct {
	Sent          int    `json:"sent"` // through Services
	Failed        int    `json:"failed"`
	Cut           int    `json:"cut"`         // of the failed: accepted, but not answered
	During        int    `json:"during"`      // of all: while a new process took over
	ControlSent   int    `json:"controlSent"` // straight to endpoints
	ControlFailed int    `json:"controlFailed"`
	Long          int    `json:"long"` // kept open, and asked again at the end
	Broken        int    `json:"broken"`
	First         string `json:"first,omitempty"` // failure
}

// load opens connections to random Services until a number was sent and the caller
// has said that what they are to disturb is over. The long ones are asked again at
// the end.
type load struct {
	n        int64
	patience time.Duration // for one connection
	oneSYN   bool          // one whose SYN was sent again has failed
	end      time.Time     // whatever was sent by then
	stop     atomic.Bool
	over     atomic.Bool
	all      sync.WaitGroup
	errs     [loadWorkers]error
	sent     atomic.Int64
	during   int64

	mu  sync.Mutex
	out Load         // guarded by mu
	fds []int        // guarded by mu; the long ones
	to  []netip.Addr // guarded by mu; whom they reached
}

const (
	loadWorkers = 4    // that open connections at a time
	loadRate    = 5000 // connections a second of all workers, at most
	maxLong     = 1000 // that stay open
)

func (w *world) load(ctx context.Context, services, n int, limit time.Duration) *load {
	l := &load{n: int64(n), patience: cmp.Or(w.patience, patience), oneSYN: w.oneSYN, end: time.Now().Add(limit)}
	for k := range loadWorkers {
		l.all.Go(func() {
			l.errs[k] = w.client.Do(func() error { return l.work(ctx, rand.New(rand.NewPCG(uint64(k), 7)), services) })
		})
	}
	return l
}

func (l *load) work(ctx context.Context, r *rand.Rand, services int) error {
	pace := time.NewTicker(loadWorkers * time.Second / loadRate)
	defer pace.Stop()
	for !l.finished() {
		l.one(r, services, int(l.sent.Add(1)))
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l *load) finished() bool {
	return l.stop.Load() || l.over.Load() && l.sent.Load() >= l.n || time.Now().After(l.end)
}

// reach waits until so many were sent, or the load has ended.
func (l *load) reach(n int64) {
	for tick := time.Tick(pollEvery); l.sent.Load() < n && !l.finished(); {
		<-tick
	}
}

// taking counts, until it is called back, what is sent while a process takes over.
func (l *load) taking() (over func()) {
	before := l.sent.Load()
	return func() { l.during = l.sent.Load() - before }
}

// wait waits until all connections were opened; what they disturb is over. Cut
// short, it waits for those under way alone.
func (l *load) wait(cut bool) (Load, error) {
	l.over.Store(true)
	if cut {
		l.stop.Store(true)
	}
	l.all.Wait()
	return l.finish(), errors.Join(l.errs[:]...)
}

// one opens a connection: one of eight is a control, three go by a node port, four by a
// ClusterIP. Some stay open, by both in turn.
func (l *load) one(r *rand.Rand, services, k int) {
	from := source(k / 8) // or each would have its own kind of connection
	i := anyTCP(r.Uint64(), services)
	to := netip.AddrPortFrom(vip(i), servicePort)
	control, long := k%8 == 0, k%longInterval == 1 && k < maxLong*longInterval
	switch {
	case control:
		to = netip.AddrPortFrom(pod(i, 1+r.IntN(endpoints-1)), podPort)
	case k%2 == 0 || long && k%(2*longInterval) == 1:
		to = netip.AddrPortFrom(nodeAddr, nodePort(tcp(withNodePort(r, services))))
	}
	if long {
		l.keep(l.dialAndAsk(from, to))
		return
	}
	fd, _, err := l.dialAndAsk(from, to)
	if err == nil {
		_ = unix.Close(fd)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if control {
		l.out.ControlSent++
		if err != nil {
			l.out.ControlFailed++
		}
		return
	}
	l.out.Sent++
	l.failed(err)
}

// questions may be sent again at most: a third time is 1.4 s after the first, if the kernel has none sent sooner
// than 0.2 s after the one before (tcp_rto_min).
const questions = 2

// resent fails, where nothing is to be lost, if more was sent again than may be.
func (l *load) resent(fd, most int) error {
	if !l.oneSYN {
		return nil
	}
	n, err := resent(fd)
	if err == nil && n > most {
		err = fmt.Errorf("sent again %d times, at most %d are expected", n, most)
	}
	return err
}

func (l *load) dialAndAsk(from, to netip.AddrPort) (int, netip.Addr, error) {
	fd, err := dial(from, to, l.patience)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	err = l.resent(fd, 0)
	var at netip.Addr
	if err == nil {
		at, err = who(fd)
	}
	if err == nil {
		err = l.resent(fd, questions)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, at, err
}

func (l *load) keep(fd int, at netip.Addr, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Sent++
	if err != nil {
		l.failed(err)
		return
	}
	l.fds, l.to = append(l.fds, fd), append(l.to, at)
}

// failed is called with mu held.
func (l *load) failed(err error) {
	if err == nil {
		return
	}
	l.out.Failed++
	if errors.Is(err, errUnanswered) || errors.Is(err, unix.ECONNRESET) {
		l.out.Cut++
	}
	if l.out.First == "" {
		l.out.First = err.Error()
	}
}

// finish asks the long connections whether they still lead where they did.
func (l *load) finish() Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, fd := range l.fds {
		l.out.Long++
		_, err := unix.Write(fd, []byte{1})
		var at netip.Addr
		if err == nil {
			at, err = who(fd)
		}
		if err != nil || at != l.to[k] {
			l.out.Broken++
		}
		_ = unix.Close(fd)
	}
	l.fds, l.to = nil, nil
	l.out.During = int(l.during)
	return l.out
}
