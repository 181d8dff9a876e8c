//go:build linux

package dptest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

func seedBytes(f *testing.F) {
	for i := range 24 {
		b := make([]byte, 400)
		x := uint32(i + 1)
		for j := range b {
			x = x*1664525 + 1013904223
			b[j] = byte(x >> 24)
		}
		f.Add(b)
	}
}

// partly applies a history to a Target by the partial plans of the Services that
// each change touches and of their rivals.
func partly(t *testing.T, d *bytesDice, m *Model) (*History, plan.Options) {
	h := &History{dice: d}
	opt := h.Options()
	h.First()
	applied := plan.Build(&h.Objects, opt)
	var claims plan.Claims
	for name, s := range applied.Services {
		claims.Set(name, plan.Service{}, s)
	}
	apply(t, m, nil, applied)
	replay := &objects.Snapshot{}
	for _, c := range changes(&h.Objects) {
		replay.Apply(c)
	}
	for len(d.left) > 0 {
		dirty, node := map[objects.Name]bool{}, false
		for _, c := range h.Next() {
			touched := replay.Apply(c)
			for _, name := range touched.Services {
				dirty[name] = true
			}
			if touched.All {
				for name := range replay.Services {
					dirty[name] = true
				}
			}
			node = node || touched.Node
		}
		old, new := plan.Step(applied, &claims, replay, opt, dirty, node)
		apply(t, m, old, new)
	}
	return h, opt
}

func FuzzFakeNames(f *testing.F) { FuzzNames(f, fakeBackend("")) }

// FuzzHistory: partial plans, however they come, end where one fresh build does.
func FuzzHistory(f *testing.F) {
	seedBytes(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		m := NewModel()
		h, opt := partly(t, &bytesDice{left: text}, m)
		if diff := cmp.Diff(NewModelOf(plan.Build(&h.Objects, opt)).String(), m.String()); diff != "" {
			t.Errorf("-fresh build +by differences:\n%s", diff)
		}
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
