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
	"runtime/debug"
	"time"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/proxyproc"
)

// subject is one row at one size, at work.
type subject struct {
	w      *world
	cfg    Config
	row    Row
	n      int // Services
	spec   proxyproc.Spec
	agent  *proxyproc.Process
	kernel follower
	out    *Result
}

// errLimit: what was waited for did not come within the limit. A cold start that
// does not end is the row's end; of what is done many times, the result has those
// that were, and says of how many.
var errLimit = errors.New("not finished within the limit")

// rowsEnd is what ends a row and not the run: its dataplane does not do its part.
type rowsEnd struct{ error }

// measure runs all steps of one row at one size. What the row cannot finish is in
// the result; an error is the harness's own.
func (w *world) measure(ctx context.Context, cfg Config, row Row, n int) (Result, error) {
	out := Result{Row: row.Name(), Services: n}
	s := &subject{w: w, cfg: cfg, row: row, n: n, out: &out}
	var err error
	out.Lacks = w.wantGroup(row)
	if s.spec, err = w.spec(cfg, row); err != nil {
		return out, err
	}
	if s.kernel, err = follow(row, w.node); err != nil {
		return out, err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"cold start", s.coldStart}, {"flows", s.openFlows}, {"changes", s.changes}, {"changes at a rate", s.steady},
		{"big Services", s.bigs}, {"stale flows", s.staleFlows}, {"switches", s.switches}, {"warm restart without load", s.quietRestart}, {"warm restart", s.warmRestart},
		{"kernel alone", s.elements},
	} {
		w.log.Info("measuring", "row", row.Name(), "services", n, "step", step.name)
		err = step.run(ctx)
		if errors.Is(err, errLimit) {
			out.Ended = fmt.Sprintf("%s not finished after %v; see %s", step.name, cfg.Limit, s.agent.Log())
			err = nil
			break
		}
		if end, ok := errors.AsType[rowsEnd](err); ok {
			out.Ended, err = fmt.Sprintf("%s: %v", step.name, end), nil
			break
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", step.name, err)
			break
		}
	}
	err = errors.Join(err, s.end(ctx), s.kernel.Close()) // end may add to the result
	return out, err
}

func (s *subject) start() error {
	a, err := proxyproc.Start(s.w.node, s.w.dir, s.spec)
	s.agent = a
	return err
}

// endPatience is how long what was killed may stay: a transaction of nft that the kernel
// works on, as that of a first sync at 44 000 Services, cannot be interrupted.
const endPatience = 15 * time.Minute

// end stops the process and what it has started, and removes its rules: by its own
// clean-up, which may fail, and then whatever is left in the node.
func (s *subject) end(ctx context.Context) error {
	if s.agent == nil {
		return nil
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	killed := s.agent.KillAll(patient)
	own := s.w.ownCleanUp(patient, s.cfg, s.row) // of an interrupted run too
	if end, ok := errors.AsType[rowsEnd](own); ok {
		s.out.Ended, own = cmp.Or(s.out.Ended, end.Error()), nil
	}
	return errors.Join(killed, own, s.w.flush())
}

// pollEvery is how often a condition is looked at.
const pollEvery = 2 * time.Millisecond

// over says why the row cannot go on: its process has ended, or leaves the host too
// little memory. Most of what a first sync of many Services takes is the kernel's, which
// no process's size shows.
func (s *subject) over() error {
	select {
	case <-s.agent.Done():
		return rowsEnd{fmt.Errorf("%s ended by itself: %w; see %s", s.row.Name(), s.agent.Err(), s.agent.Log())}
	default:
	}
	if left := host.MemAvailable(); left < s.cfg.LeastMemory {
		return rowsEnd{fmt.Errorf("the host had %d MiB of memory left, less than %d", left>>20, s.cfg.LeastMemory>>20)}
	}
	return nil
}

// looksAtRow is how many looks at a condition there are for one at the row itself.
const looksAtRow = 50

// await polls until a condition holds, or the time, the host's memory or the process is
// over.
func (s *subject) await(ctx context.Context, end time.Time, cond func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		if looks%looksAtRow == 0 {
			if err := s.over(); err != nil {
				return err
			}
		}
		select {
		case <-s.agent.Done():
			return s.over()
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if time.Now().After(end) {
			return errLimit
		}
	}
}

// sample of Services that must answer for a start to be over, besides the last.
const sample = 50

// coldStart times a start on a kernel without rules, in a node that is prepared.
func (s *subject) coldStart(ctx context.Context) error {
	if err := s.w.prepare(ctx, s.cfg, s.row); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	begin := s.agent.Started()
	r := rand.New(rand.NewPCG(1, uint64(s.n)))
	left := []int{tcp(s.n - 1)}
	for range sample {
		left = append(left, tcp(r.IntN(s.n)))
	}
	err := s.await(ctx, begin.Add(s.cfg.Limit), func() (bool, error) {
		return len(left) == 0, s.w.client.Do(func() error {
			for len(left) > 0 {
				if _, err := knock(source(0), netip.AddrPortFrom(vip(left[0]), servicePort), glance); err != nil {
					return nil //nolint:nilerr // not there yet
				}
				left = left[1:]
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	s.out.Cold = time.Since(begin)
	use, err := s.agent.Usage()
	if err != nil {
		return err
	}
	s.out.ColdCPU = use.CPU
	s.out.ColdApply, err = s.firstApply(ctx, begin.Add(s.cfg.Limit))
	return err
}

// garbage is how much may come together while none is collected.
const garbage = 512 << 20

// holdGarbage collects this process's own garbage and, until what it returns is called, no more before there is
// much of it: the API lives here too, with all its objects, and the proxy under measurement should not wait
// while they are looked through.
func holdGarbage() (release func()) {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	limit, percent := debug.SetMemoryLimit(int64(now.Sys-now.HeapReleased)+garbage), debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// changes replaces one endpoint of one Service after another: of those with node ports,
// so that a change is the same at every size.
func (s *subject) changes(ctx context.Context) error {
	r := rand.New(rand.NewPCG(3, 0))
	before, err := s.agent.Usage()
	if err != nil {
		return err
	}
	took, ops, commits, err := s.each(ctx, func() (api.Object, edit) { return s.w.edit(withNodePort(r, s.n)) })
	if err != nil {
		return err
	}
	after, err := s.agent.Usage()
	if s.row.Shows != nowhere {
		s.out.Change, s.out.Ops, s.out.Commits = spread(took, s.cfg.Changes), median(ops), median(commits)
		s.out.ChangeCPU = (after.CPU - before.CPU) / time.Duration(max(len(took), 1))
	}
	s.out.RSS, s.out.Peak = after.RSS, after.Peak
	return err
}

// each writes one object after another, and waits each time until the kernel has followed.
func (s *subject) each(ctx context.Context, next func() (api.Object, edit)) (took []time.Duration, ops, commits []int, err error) {
	defer holdGarbage()()
	begin := time.Now()
	for k := 0; k < s.cfg.Changes && time.Since(begin) < s.cfg.Limit; k++ {
		object, e := next()
		if err := s.kernel.reset(e); err != nil {
			return nil, nil, nil, err
		}
		at := time.Now()
		if err := s.w.api.Apply(object); err != nil {
			return nil, nil, nil, err
		}
		if s.row.Shows == nowhere {
			continue // switches measure it
		}
		got, err := s.kernel.settle(begin.Add(s.cfg.Limit), s.over)
		if err != nil {
			return nil, nil, nil, err
		}
		if got.overrun {
			return nil, nil, nil, errOverrun
		}
		if got.commits == 0 {
			break // the limit
		}
		took, ops, commits = append(took, got.last.Sub(at)), append(ops, got.ops), append(commits, got.commits)
		if ctx.Err() != nil {
			return nil, nil, nil, ctx.Err()
		}
	}
	return took, ops, commits, nil
}

// switches replaces the only endpoint of a Service and waits for the first packet
// that reaches the new one.
func (s *subject) switches(ctx context.Context) error {
	var took []time.Duration
	begin := time.Now()
	for k := 0; k < s.cfg.Switches && time.Since(begin) < s.cfg.Limit; k++ {
		d, err := s.switchOver(ctx)
		if errors.Is(err, errLimit) {
			break
		}
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	s.out.Switch = spread(took, s.cfg.Switches)
	return nil
}

func (s *subject) switchOver(ctx context.Context) (time.Duration, error) {
	at := time.Now()
	if err := s.w.api.Apply(s.w.next(switched)); err != nil {
		return 0, err
	}
	return s.follows(ctx, at)
}

// follows waits until packets to the switched Service reach its endpoint.
func (s *subject) follows(ctx context.Context, begin time.Time) (time.Duration, error) {
	want := replaced(switched, s.w.generation[switched])
	err := s.await(ctx, begin.Add(s.cfg.Limit), func() (there bool, err error) {
		err = s.w.client.Do(func() error {
			at, err := knock(source(0), netip.AddrPortFrom(vip(switched), servicePort), glance)
			there = err == nil && at == want
			return nil
		})
		return there, err
	})
	return time.Since(begin), err
}
