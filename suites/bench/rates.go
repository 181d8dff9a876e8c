//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/host"
)

// Rate is connections opened as fast as they go, to Services and straight to their endpoints in
// turn: the median of all turns, and what a connection took of the whole host's processors.
type Rate struct {
	From                  string // client: outside the node; node: on it
	Through, Direct       float64
	ThroughCPU, DirectCPU time.Duration
}

// String is connections a second, and the time of one.
func (r Rate) String() string {
	return fmt.Sprintf("%s: %.0f/s, %s (direct %.0f/s, %s)", r.From, r.Through, short(r.ThroughCPU), r.Direct, short(r.DirectCPU))
}

const (
	// rateWorkers open connections at a time, one after another each.
	rateWorkers = 2
	// turn is how long a row has the host at a time: many ticks of the kernel's accounts.
	turn = 200 * time.Millisecond
)

// place is who opens connections.
type place struct {
	name  string
	do    func(*world, func() error) error
	bound bool // to the client's addresses
}

var (
	atClient = place{"client", func(w *world, f func() error) error { return w.client.Do(f) }, true}
	atNode   = place{"node", (*world).asNode, false}
)

// asNode runs on a thread of the node's: in its namespace and its cgroup.
func (w *world) asNode(f func() error) error {
	return w.node.Do(func() error {
		if err := w.group.Enter(); err != nil {
			return err
		}
		return f()
	})
}

// tally is what one lane did in the turns of one place and kind.
type tally struct {
	each []float64 // connections a second of each turn
	n    int
	cpu  time.Duration
}

// rates lets the lanes take turns in random order, until each had so much time of each kind.
func rates(ctx context.Context, lanes []*lane, each time.Duration) error {
	defer holdGarbage()()
	for _, from := range []place{atClient, atNode} {
		through, direct := make([]tally, len(lanes)), make([]tally, len(lanes))
		for k := range int(each / turn) {
			r := rand.New(rand.NewPCG(5, uint64(k)))
			for _, which := range r.Perm(2 * len(lanes)) {
				l, t := lanes[which/2], &through[which/2]
				if which%2 == 1 {
					t = &direct[which/2]
				}
				if l.over || from.name == atNode.name && l.row.Lacks != "" {
					continue
				}
				if err := l.turn(ctx, from, which%2 == 1, r.Uint64(), t); err != nil {
					return err
				}
			}
		}
		for i, l := range lanes {
			if !l.over && len(direct[i].each) > 0 {
				l.row.Rates = append(l.row.Rates, Rate{from.name, through[i].median(), direct[i].median(), through[i].perOne(), direct[i].perOne()})
			}
		}
	}
	return nil
}

func (t tally) median() float64 { return slices.Sorted(slices.Values(t.each))[len(t.each)/2] }

func (t tally) perOne() time.Duration { return t.cpu / time.Duration(max(t.n, 1)) }

// turn has one lane's workers open connections for a while.
func (l *lane) turn(ctx context.Context, from place, direct bool, seed uint64, t *tally) error {
	var all sync.WaitGroup
	var counts [rateWorkers]int
	var failed, errs [rateWorkers]error // connections; and what else
	before, err := host.BusyTime()
	if err != nil {
		return err
	}
	begin := time.Now()
	for k := range rateWorkers {
		all.Go(func() {
			errs[k] = from.do(l.s.w, func() error {
				r := rand.New(rand.NewPCG(seed, uint64(k)))
				for time.Since(begin) < turn && ctx.Err() == nil && failed[k] == nil {
					err := l.one(from, direct, r, counts[k])
					if _, own := errors.AsType[ownError](err); own {
						return err
					}
					failed[k] = err
					counts[k]++
				}
				return nil
			})
		})
	}
	all.Wait()
	took := time.Since(begin)
	after, err := host.BusyTime()
	if err := errors.Join(err, ctx.Err(), errors.Join(errs[:]...)); err != nil {
		return err
	}
	if err := errors.Join(failed[:]...); err != nil {
		if direct {
			return fmt.Errorf("past %s: %w", l.s.row.Name(), err)
		}
		return l.ended("connections from the "+from.name, rowsEnd{err})
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	t.n, t.cpu, t.each = t.n+n, t.cpu+after-before, append(t.each, float64(n)/took.Seconds())
	return nil
}

// one opens a connection, hears who answers, and ends it.
func (l *lane) one(from place, direct bool, r *rand.Rand, k int) error {
	i := anyTCP(r.Uint64(), l.s.n)
	to := netip.AddrPortFrom(vip(i), servicePort)
	if direct {
		to = netip.AddrPortFrom(pod(i, 1), podPort)
	}
	var me netip.AddrPort
	if from.bound {
		me = source(k)
	}
	_, err := knock(me, to, patience)
	return err
}
