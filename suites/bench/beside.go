//go:build linux

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/api"
)

const (
	// packets go to Services by each row, and as many past it. A hundred of them are
	// beyond the 99th percentile.
	packets = 10_000
	// round is how many of them have their sockets opened in advance, one round at a time.
	round = 100
)

// lane is a row at work in a world of its own, beside the others.
type lane struct {
	s               *subject
	row             *Result
	over            bool  // the dataplane does not do its part any more
	sockets         []int // of this round, by turns to a Service and past it; -1 if used
	through, direct []time.Duration
}

// beside times what the rows that have started do side by side: first packets, connections as
// fast as they go, and connect(2) on the node.
func beside(ctx context.Context, cfg Config, server *api.Server, out []Result) (err error) {
	var lanes []*lane
	defer func() {
		for _, l := range lanes {
			err = errors.Join(err, l.end(ctx))
		}
	}()
	for i, row := range cfg.Rows {
		if out[i].Cold == 0 {
			continue
		}
		l, err := newLane(ctx, cfg, server, row, &out[i])
		if err != nil {
			return fmt.Errorf("%s: %w", row.Name(), err)
		}
		lanes = append(lanes, l)
		if err := l.ended("cold start beside others", l.s.coldStart(ctx)); err != nil {
			return fmt.Errorf("%s: %w", row.Name(), err)
		}
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"first packets", func() error { return race(ctx, lanes) }},
		{"connections", func() error { return rates(ctx, lanes, cfg.Rates) }},
		{"connect(2) of UDP", func() error { return udpConnects(ctx, lanes, cfg.Rates) }},
	} {
		cfg.Logger.Info("measuring", "rows", len(lanes), "step", step.name)
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func newLane(ctx context.Context, cfg Config, server *api.Server, row Row, out *Result) (*lane, error) {
	w, err := newWorld(ctx, cfg.Work, server, cfg.Logger)
	if err != nil {
		return nil, err
	}
	s := &subject{w: w, cfg: cfg, row: row, n: out.Services, out: &Result{}}
	out.Lacks = w.wantGroup(row)
	if s.spec, err = w.spec(cfg, row); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &lane{s: s, row: out}, nil
}

// ended notes what ended a row, and returns what is the harness's own error.
func (l *lane) ended(step string, err error) error {
	if errors.Is(err, errLimit) {
		err = rowsEnd{err}
	}
	if end, ok := errors.AsType[rowsEnd](err); ok {
		l.over, l.row.Ended, err = true, cmp.Or(l.row.Ended, fmt.Sprintf("%s: %v", step, end)), nil
	}
	return err
}

func (l *lane) end(ctx context.Context) error {
	for _, fd := range l.sockets {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	l.row.FirstPacket, l.row.Direct = spread(l.through, packets), spread(l.direct, packets)
	err := errors.Join(l.s.end(ctx), l.s.w.Close())
	l.row.Ended = cmp.Or(l.row.Ended, l.s.out.Ended)
	return err
}

// race has every lane send its packets, all to the same Services, one at a time: each
// time in another order, so that none always finds what another has left in the caches.
func race(ctx context.Context, lanes []*lane) error {
	defer holdGarbage()()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for first := 0; first < packets && ctx.Err() == nil; first += round {
		for _, l := range lanes {
			if l.over {
				continue
			}
			if err := l.open(first); err != nil {
				return err
			}
		}
		r := rand.New(rand.NewPCG(2, uint64(first)))
		for k := range round {
			pick := r.Uint64()
			for _, turn := range r.Perm(2 * len(lanes)) {
				if err := lanes[turn/2].send(k, turn%2 == 1, pick); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// open makes a round's sockets. They stay in the client's namespace wherever they are
// used, so that no thread has to enter one between two packets.
func (l *lane) open(first int) error {
	l.sockets = l.sockets[:0]
	return l.s.w.client.Do(func() error {
		for k := range 2 * round {
			fd, err := socket(source(first+k/2), patience)
			if err != nil {
				return err
			}
			l.sockets = append(l.sockets, fd)
		}
		return nil
	})
}

// send is the kth of a round: a handshake with a Service, or with one of its endpoints.
func (l *lane) send(k int, direct bool, pick uint64) error {
	if l.over {
		return nil
	}
	i := anyTCP(pick, l.s.n)
	mine, to := &l.sockets[2*k], netip.AddrPortFrom(vip(i), servicePort)
	if direct {
		mine, to = &l.sockets[2*k+1], netip.AddrPortFrom(pod(i, 1), podPort)
	}
	took, err := connect(*mine, to)
	if err == nil {
		_, err = who(*mine)
	}
	_ = unix.Close(*mine)
	*mine = -1
	switch {
	case err != nil && direct:
		return fmt.Errorf("past %s: %w", l.s.row.Name(), err)
	case err != nil:
		return l.ended("first packets", rowsEnd{fmt.Errorf("service %d: %w", i, err)})
	case direct:
		l.direct = append(l.direct, took)
	default:
		l.through = append(l.through, took)
	}
	return nil
}
