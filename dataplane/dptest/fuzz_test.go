//go:build linux

package dptest

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// unsure is a Target of which some calls fail: nothing was done, or it was and its word is lost.
type unsure struct {
	*Model
	r *rand.Rand
}

func (u unsure) Apply(ctx context.Context, old, new *plan.Plan) error {
	fate := u.r.IntN(8)
	if fate == 0 {
		return errFault
	}
	err := u.Model.Apply(ctx, old, new)
	if fate == 1 {
		return errFault
	}
	return err
}

// told is what the loop has health checks and Events say.
type told struct {
	checks map[objects.Name]plan.HealthCheck
}

func (k *told) Sync(_ plan.Node, checks map[objects.Name]plan.HealthCheck) { k.checks = checks }
func (*told) Warn(objects.Name, string, string)                            {}
func (*told) WarnOfObject(objects.Name, string, string)                    {}
func (*told) WarnNode(string, string)                                      {}

// looped has the loop carry a history to a Target, at moments that the history chooses, and
// waits until nothing is left to do.
func looped(t *testing.T, d *bytesDice, m *Model, k *told) (*History, plan.Options) {
	h := &History{dice: d}
	opt := h.Options()
	target := unsure{m, rand.New(rand.NewPCG(uint64(d.IntN(256)), 0))}
	l := loop.New(loop.Config{Options: opt, Target: target, HealthChecks: k, Events: k, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	node := Node() // without, or without what tells local pods, the loop waits
	l.Handle(append(h.First(), h.took(&objects.Change{Node: &node})...))
	for len(d.left) > 0 {
		switch d.IntN(4) {
		case 0:
			synctest.Wait()
		case 1:
			time.Sleep(time.Duration(d.IntN(256)) * time.Millisecond)
		case 2:
			l.Lost()
		}
		l.Handle(h.Next())
	}
	time.Sleep(quarter)
	synctest.Wait()
	s := l.Status()
	if s.Seen != s.Done || !s.Waiting.IsZero() {
		t.Errorf("not all was done: %+v", s)
	}
	var without plan.NoLocal
	for _, fresh := range plan.Build(&h.Objects, opt).Services {
		without.Add(fresh.NoLocal(), 1)
	}
	if s.NoLocal != without {
		t.Errorf("without a local endpoint: %+v counted by and by, %+v at the end", s.NoLocal, without)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return h, opt
}

// quarter of an hour is more than many failures in a row take, and less than it takes the loop
// to look at the kernel by itself.
const quarter = 15 * time.Minute

func FuzzFakeNames(f *testing.F) { FuzzNames(f, fakeBackend("")) }

// FuzzHistory: the loop, however changes and failures come, ends where one fresh build does.
func FuzzHistory(f *testing.F) {
	seedBytes(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		synctest.Test(t, func(t *testing.T) {
			m, k := NewModel(), &told{}
			h, opt := looped(t, &bytesDice{left: text}, m, k)
			fresh := plan.Build(&h.Objects, opt)
			if diff := cmp.Diff(NewModelOf(fresh).String(), m.String()); diff != "" {
				t.Errorf("-fresh build +by the loop:\n%s", diff)
			}
			want := map[objects.Name]plan.HealthCheck{}
			for name, s := range fresh.Services {
				if s.HealthCheck != nil {
					want[name] = *s.HealthCheck
				}
			}
			if diff := cmp.Diff(want, k.checks, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("health checks: -fresh build +by the loop:\n%s", diff)
			}
		})
	})
}

// FuzzResolve: any plan and any packet have one outcome, with endpoints that the
// frontend has, and chances that sum to 1.
func FuzzResolve(f *testing.F) {
	seedBytes(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &bytesDice{left: text}
		h := &History{dice: d}
		h.First()
		opt := h.Options()
		for range 10 {
			h.Next()
		}
		p := plan.Build(&h.Objects, opt)
		index := plan.Index(p)
		for range 20 {
			pkt := Row{From: pick[Source](d, Outside, PodA, PodB, Remote, Self, "none"), Proto: pick(d, protocols()...), To: h.target(p)}.Packet()
			out := plan.Resolve(p, pkt)
			if diff := cmp.Diff(out, plan.Resolve(p, pkt), cmp.Comparer(func(a, b plan.Endpoint) bool { return a == b }), cmp.Comparer(func(a, b plan.Key) bool { return a == b })); diff != "" {
				t.Errorf("%+v has two outcomes:\n%s", pkt, diff)
			}
			checkOutcome(t, p, index, pkt, out)
		}
	})
}

func checkOutcome(t *testing.T, p *plan.Plan, index map[plan.Key]*plan.Frontend, pkt plan.Packet, out plan.Outcome) {
	sum := 0.0
	for _, d := range out.To {
		sum += d.Probability
		if d.Endpoint.Addr.Is6() != pkt.Dst.Is6() {
			t.Errorf("%+v goes to %s of another family", pkt, d.Endpoint)
		}
		ours := slices.ContainsFunc(frontendsAt(p, index, pkt), func(f plan.Frontend) bool {
			return slices.Contains(f.Outside.Endpoints, d.Endpoint) || f.Inside != nil && slices.Contains(f.Inside.Endpoints, d.Endpoint)
		})
		if !ours {
			t.Errorf("%+v goes to %s, which no frontend there has", pkt, d.Endpoint)
		}
	}
	switch {
	case out.Action == plan.Forward && math.Abs(sum-1) > 1e-9, out.Action != plan.Forward && len(out.To) > 0:
		t.Errorf("%+v: %s with chances that sum to %g", pkt, out.Action, sum)
	case out.Known != slices.Contains([]plan.Action{plan.Forward, plan.Drop, plan.Reject}, out.Action):
		t.Errorf("%+v: known %t, and %q", pkt, out.Known, out.Action)
	}
}

// frontendsAt are those that a packet might be for.
func frontendsAt(p *plan.Plan, index map[plan.Key]*plan.Frontend, pkt plan.Packet) []plan.Frontend {
	var out []plan.Frontend
	for k, f := range index {
		at := k.Addr == pkt.Dst || k.IsNodePort() && slices.Contains(p.Node.Addrs, pkt.Dst)
		if at && k.Protocol == pkt.Protocol && k.Port == pkt.Port {
			out = append(out, *f)
		}
	}
	return out
}

// FuzzDecode: any YAML is read or refused, and what is read makes a plan in which
// no name or address has become syntax: each line of it is of a form that the plan
// gives it.
func FuzzDecode(f *testing.F) {
	_, text, _ := strings.Cut(fakeCases, "-- objects.yaml --\n")
	text, _, _ = strings.Cut(text, "-- packets --")
	f.Add(text)
	for _, bad := range []string{"10.96.0.999", "::ffff:10.96.0.1", "fe80::1%eth0", "127.0.0.1", "\"10.96.0.1\\n\"", "0", "-1", "1e9", "null", "[]"} {
		f.Add(strings.Replace(text, "10.96.0.10", bad, 1))
		f.Add(strings.Replace(text, "8080", bad, 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		snap, err := objects.Decode([]byte(text))
		if err != nil {
			return
		}
		for key, fr := range plan.Index(plan.Build(snap, defaults())) {
			if !key.IsNodePort() && (!key.Addr.IsValid() || key.Addr.Zone() != "" || key.Addr.Is4In6() || key.Addr.Is6() != key.IPv6) {
				t.Errorf("frontend at %v", key)
			}
			for _, e := range append(slices.Clone(fr.Outside.Endpoints), fr.Draining...) {
				if !e.Addr.IsValid() || e.Addr.Zone() != "" || e.Addr.Is4In6() || e.Addr.IsLoopback() || e.Addr.IsMulticast() || e.Port == 0 {
					t.Errorf("%v leads to %v", key, e)
				}
			}
		}
	})
}
