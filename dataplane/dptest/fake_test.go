//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// fakeKernel answers packets by the oracle of what it holds.
type fakeKernel struct {
	fd     int
	mutant string

	mu       sync.Mutex
	model    *Model
	affinity map[string]Dest           // guarded by mu
	brief    map[netip.AddrPort]expiry // guarded by mu; of Visits, by frontend
	cuts     int                       // guarded by mu; how often all connections were cut
}

// expiry is where a client of a frontend goes, and until when.
type expiry struct {
	to    Dest
	until time.Time
}

func (k *fakeKernel) FD() int       { return k.fd }
func (k *fakeKernel) Forget() error { return nil }

func (k *fakeKernel) empty() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.model = NewModel()
}

func (k *fakeKernel) plan() *plan.Plan {
	p := &plan.Plan{Node: k.model.node, Services: map[objects.Name]plan.Service{}}
	for key, f := range k.model.frontends {
		p.Services[objects.Name{Name: key.String()}] = plan.Service{Frontends: []plan.Frontend{*f}}
	}
	return p
}

func (k *fakeKernel) Check(_ context.Context, p *plan.Plan, rows []Row, m *Memory) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, r := range rows {
		out := plan.Resolve(k.plan(), r.Packet())
		got := r.in(out)
		if out.Affinity > 0 && len(got.Dests) > 0 {
			id := fmt.Sprint(r.Packet().Src, out.Group)
			if d, ok := k.affinity[id]; !ok || !slices.Contains(got.Dests, d) {
				k.affinity[id] = got.Dests[0]
			}
			got.Dests = []Dest{k.affinity[id]}
		}
		if !r.Agrees(got) {
			errs = append(errs, fmt.Errorf("%s: the kernel did %s", r.Line, got.Outcome()))
		} else if len(got.Dests) == 1 {
			errs = append(errs, m.recall(r, got, plan.Resolve(p, r.Packet()).Group))
		}
	}
	return errors.Join(errs...)
}

func (k *fakeKernel) Spread(_ context.Context, r Row, n int) (map[netip.AddrPort]int, error) {
	out := map[netip.AddrPort]int{}
	dests := r.Resolve(k.plan()).Dests
	for i := range n {
		at := i % len(dests)
		if k.mutant == "unfair" && i%5 == 0 {
			at = 0
		}
		out[dests[at].At]++
	}
	return out, nil
}

func (k *fakeKernel) Visits(_ context.Context, _ []Row, f func(func(Row) (netip.AddrPort, error)) error) error {
	return f(func(r Row) (netip.AddrPort, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.stick(r, r.Resolve(k.plan()).Dests, plan.Resolve(k.plan(), r.Packet()).Affinity).At, nil
	})
}

// stick is where affinity takes a row. It is called with mu held.
func (k *fakeKernel) stick(r Row, dests []Dest, timeout time.Duration) Dest {
	now, had := time.Now(), k.brief[r.To]
	known := now.Before(had.until) || k.mutant == "remembers for ever" && !had.until.IsZero()
	if !known {
		had.to = dests[rand.IntN(len(dests))]
	}
	if !known || k.mutant != "use is not counted" {
		had.until = now.Add(timeout)
	}
	k.brief[r.To] = had
	return had.to
}

// fakeConversation lasts until all are cut.
type fakeConversation struct {
	k    *fakeKernel
	cuts int
}

func (k *fakeKernel) Hold(context.Context, []Row) ([]conversation, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return []conversation{fakeConversation{k, k.cuts}}, nil
}

func (c fakeConversation) talk() error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if c.k.cuts != c.cuts {
		return errors.New("cut")
	}
	return nil
}

func (fakeConversation) close() {}

// fakeTarget writes to it in two steps, each of which may fail.
type fakeTarget struct {
	*fakeKernel
	fault func() error
}

func (f *fakeTarget) Apply(ctx context.Context, old, new *plan.Plan) error {
	if f.mutant == "is empty while it changes" && old != nil {
		f.empty()
		time.Sleep(time.Millisecond) // others are asked meanwhile, or at the next change
		old = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old, new = mutate(f.mutant, old), mutate(f.mutant, new)
	if f.mutant == "partial is complete" {
		old = nil
	}
	if f.mutant == "forgets affinity" || f.mutant == "takes over without affinity" && old == nil {
		clear(f.affinity)
	}
	if f.mutant == "cuts connections" && old != nil || f.mutant == "takes over and cuts connections" && old == nil {
		f.cuts++
	}
	for range 2 {
		if err := f.fault(); err != nil {
			switch f.mutant {
			case "is empty after a fault":
				f.model = NewModel()
			case "swallows faults":
				return nil
			case "takes faults for refusals":
				return &plan.Refused{Frontends: map[plan.Key]error{{}: err}}
			}
			return fmt.Errorf("write: %w", err)
		}
		if old == nil && f.mutant == "never takes over" {
			old = &plan.Plan{}
		}
		c := plan.Diff(old, new)
		was := maps.Clone(f.model.frontends)
		_ = f.model.Apply(ctx, old, new)
		if f.mutant == "leaves a frontend" && old != nil && len(c.Gone) > 0 {
			f.model.frontends[c.Gone[0]] = was[c.Gone[0]]
		}
	}
	return nil
}

// mutate makes a plan wrong in a way that the rendering shares, so that only
// packets can show it.
func mutate(mutant string, p *plan.Plan) *plan.Plan {
	if p == nil {
		return nil
	}
	out := &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{}}
	if mutant == "no ServiceCIDRs" {
		out.Node.ServiceCIDRs = nil
	}
	for name, s := range p.Services {
		s.Frontends = slices.Clone(s.Frontends)
		for i := range s.Frontends {
			f := &s.Frontends[i]
			switch mutant {
			case "loses an endpoint":
				if n := len(f.Outside.Endpoints); n > 1 {
					f.Outside.Endpoints = f.Outside.Endpoints[:n-1]
				}
			case "never masquerades":
				f.Outside.Masquerade = plan.KeepSource
			case "rejects drops":
				if f.Outside.Action == plan.Drop {
					f.Outside.Action = plan.Reject
				}
			case "lets everybody in":
				f.Restricted = false
			case "no short circuit":
				f.Inside = nil
			case "no affinity":
				f.Affinity = 0
			}
		}
		out.Services[name] = s
	}
	return out
}

func fakeBackend(mutant string) Backend {
	kernels := map[int]*fakeKernel{}
	var mu sync.Mutex
	of := func(fd int) *fakeKernel {
		mu.Lock()
		defer mu.Unlock()
		return kernels[fd]
	}
	target := func(fd int, fault func() error) Target { return &fakeTarget{fakeKernel: of(fd), fault: fault} }
	return Backend{
		Section: "userspace",
		Render: func(p *plan.Plan) string {
			text := NewModelOf(mutate(mutant, p)).String()
			if mutant == "writes names" {
				for name := range p.Services {
					text += name.String() + "\n"
				}
			}
			return text
		},
		New: func(t *testing.T, fd int) Target {
			t.Cleanup(func() {
				if mutant == "cleans up in the end" {
					of(fd).empty()
				}
			})
			return target(fd, func() error { return nil })
		},
		Dump: func(fd int) (string, error) {
			k := of(fd)
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.model.String(), nil
		},
		Clean: func(fd int) error {
			of(fd).empty()
			return nil
		},
		Faulty: func(_ *testing.T, fd int, fault func() error) Target { return target(fd, fault) },
		kernel: func(*testing.T) kernel {
			mu.Lock()
			defer mu.Unlock()
			k := &fakeKernel{fd: len(kernels), mutant: mutant, model: NewModel(), affinity: map[string]Dest{}, brief: map[netip.AddrPort]expiry{}}
			kernels[k.fd] = k
			return k
		},
	}
}
