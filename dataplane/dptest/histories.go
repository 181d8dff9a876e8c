//go:build linux

package dptest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// batches is the length of a history, in calls of Handle.
const batches = 25

// Histories sends random object histories through the loop, in random batches,
// and compares with one fresh build after each: the plan, the health checks, and
// what a Target was told; as root, also what is in the kernel. A history is
// made by its seed alone, so a failure repeats.
func Histories(t *testing.T, b Backend, seeds int) {
	t.Run("plan", func(t *testing.T) {
		for seed := range seeds {
			m := NewModel()
			follow(t, b, uint64(seed), m, func(p *plan.Plan) string { return cmp.Diff(NewModelOf(p).String(), m.String()) })
		}
	})
	t.Run("kernel", func(t *testing.T) {
		fd := b.place(t).FD()
		for seed := range seeds {
			target := b.New(t, fd)
			follow(t, b, uint64(seed), target, func(p *plan.Plan) string { return diffDump(t, b, fd, b.Render(p)) })
			apply(t, target, nil, &plan.Plan{})
		}
	})
}

// heard is what a loop says beside the Target.
type heard struct {
	mu     sync.Mutex
	checks map[objects.Name]plan.HealthCheck // guarded by mu
	warned []string                          // guarded by mu
}

func (h *heard) Sync(_ plan.Node, checks map[objects.Name]plan.HealthCheck) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = checks
}

func (h *heard) Warn(service objects.Name, reason, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warned = append(h.warned, service.String()+" "+reason+" "+text)
}

// WarnOfObject is heard of what histories are full of.
func (h *heard) WarnOfObject(_ objects.Name, _, _ string) {}

// WarnNode is heard before there is a Node, which follow looks for itself.
func (h *heard) WarnNode(_, _ string) {}

// differs compares the health checks with a fresh plan's; a frontend that the
// kernel refuses is a difference too.
func (h *heard) differs(p *plan.Plan) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Diff(healthChecks(p), h.checks) + strings.Join(h.warned, "\n")
}

// options are a history's, but what the backend has not.
func (b Backend) options(h *History) plan.Options {
	opt := h.Options()
	opt.SCTP = opt.SCTP && b.NoSCTP == ""
	return opt
}

// follow runs one history; differs compares the Target with a fresh plan.
func follow(t *testing.T, b Backend, seed uint64, target Target, differs func(*plan.Plan) string) {
	t.Helper()
	h := NewHistory(rand.New(rand.NewPCG(seed, 1)))
	opt := b.options(h)
	ear := &heard{}
	l := loop.New(loop.Config{
		Options: opt, Target: target, HealthChecks: ear, Events: ear,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	defer running.Wait()
	defer cancel()
	begun := false
	for i := range batches {
		var changes []objects.Change
		if i == 0 {
			changes = h.First()
		}
		for range 1 + h.dice.IntN(4) {
			changes = append(changes, h.Next()...)
		}
		l.Handle(changes)
		if h.oneIn(10) {
			l.Lost()
		}
		if n := h.Objects.Node; !begun && (n == nil || opt.Local == plan.ByNodeCIDR && len(n.PodCIDRs) == 0) {
			continue // a loop does nothing before that
		}
		begun = true
		got, err := settled(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		fresh := plan.Build(&h.Objects, opt)
		if diff := cmp.Diff(fresh.String(), got) + ear.differs(fresh) + differs(fresh); diff != "" {
			t.Fatalf("seed %d, batch %d of %d changes (-fresh build +by differences):\n%s", seed, i, len(changes), diff)
		}
	}
}

// settled waits until a loop has applied everything and returns its plan.
func settled(ctx context.Context, l *loop.Loop) (text string, err error) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		err := l.Inspect(ctx, func(p *plan.Plan, _ map[plan.Key]error) {
			if l.Status().Waiting.IsZero() {
				text = p.String()
			}
		})
		if text != "" || err != nil {
			return text, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func healthChecks(p *plan.Plan) map[objects.Name]plan.HealthCheck {
	out := map[objects.Name]plan.HealthCheck{}
	for name, s := range p.Services {
		if s.HealthCheck != nil {
			out[name] = *s.HealthCheck
		}
	}
	return out
}

// perApply is the number of random packets between two changes of everything.
const perApply = 60

// Random compares about n random packets of random plans with the oracle. The
// Target goes from plan to plan by difference, and so often back and again that packets meanwhile, by
// which both plans do the same, meet changes: these hold all the time.
func Random(t *testing.T, b Backend, seed uint64, n int) {
	t.Logf("seed %d", seed)
	k := b.place(t)
	h := NewHistory(rand.New(rand.NewPCG(seed, 2)))
	target := b.New(t, k.FD())
	var old *plan.Plan
	var memory Memory
	h.First()
	forwarded, sent, all, meanwhile, changes := 0, 0, 0, 0, 0
	for sent < n {
		for range 20 {
			h.Next()
		}
		p := plan.Build(&h.Objects, b.options(h))
		packets := h.Packets(p, perApply)
		rows := b.rows(p, packets)
		if old == nil || p.Node.LocalLink != old.Node.LocalLink { // another process's option: it takes over
			apply(t, target, nil, p)
		} else {
			common := b.common(old, p, rows)
			times, err := changing(t.Context(), target, old, p, func() error { return k.Check(t.Context(), p, common, new(Memory)) })
			if err != nil {
				t.Fatalf("seed %d, after %d packets, while plans changed:\n%v\nfrom plan:\n%s\nto plan:\n%s", seed, sent, err, old, p)
			}
			meanwhile, changes = meanwhile+len(common), changes+times
		}
		if err := b.forget(k); err != nil {
			t.Fatal(err)
		}
		if err := k.Check(t.Context(), p, rows, &memory); err != nil {
			t.Fatalf("seed %d, after %d packets:\n%v\nplan:\n%s", seed, sent, err, p)
		}
		sent, all = sent+len(rows), all+len(packets)
		for _, r := range rows {
			if r.Action == plan.Forward {
				forwarded++
			}
		}
		old = p
	}
	b.unasked(t, all, sent, b.Unasked.Random)
	if meanwhile == 0 {
		t.Error("no packet met a change")
	}
	t.Logf("%d of %d or more packets were for endpoints; %d more met %d changes", forwarded, n, meanwhile, changes)
}

// common are the rows of a plan that hold before a change to it, too, and where only the node has changed, or only
// the Services, as two tables or maps may have it for a moment. Those of session affinity are left out: a change
// may end what is remembered.
func (b Backend) common(old, new *plan.Plan, rows []Row) []Row {
	out := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Sticky })
	for _, p := range []*plan.Plan{old, {Node: old.Node, Services: new.Services}, {Node: new.Node, Services: old.Services}} {
		was := plan.NewResolver(b.node(p))
		out = slices.DeleteFunc(out, func(r Row) bool {
			before := r.in(was.Resolve(r.Packet()))
			return before.Outcome() != r.Outcome() || len(b.rows(p, []Row{before})) == 0
		})
	}
	return out
}

// changing goes from one plan to the next, and back and again as long as ask goes on; it ends at the next. It tells
// how many changes that were.
func changing(ctx context.Context, target Target, old, new *plan.Plan, ask func() error) (times int, err error) {
	begun, asked := make(chan struct{}), make(chan struct{})
	var changed error
	var running sync.WaitGroup
	running.Go(func() {
		close(begun) // the first change is next
		for times = 1; ; times += 2 {
			if changed = target.Apply(ctx, old, new); changed != nil {
				return
			}
			select {
			case <-asked:
				return
			default:
			}
			if changed = target.Apply(ctx, new, old); changed != nil {
				return
			}
		}
	})
	<-begun
	err = ask()
	close(asked)
	running.Wait()
	return times, errors.Join(changed, err)
}
