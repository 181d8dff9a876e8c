package ebpf_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A plan with SCTP is applied but for its SCTP frontends, which are named.
func TestSCTPIsRefused(t *testing.T) {
	t.Parallel()
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range all {
		if !c.Options.SCTP {
			continue
		}
		seen++
		t.Run(c.Name, func(t *testing.T) {
			p, cfg := c.Plan(), config(t, netns.ForTest(t, "node").FD())
			err := started(t, cfg).Apply(t.Context(), nil, p)
			var refused *plan.Refused
			if !errors.As(err, &refused) {
				t.Fatalf("applied with %v", err)
			}
			for k := range plan.Index(p) {
				if why := refused.Frontends[k]; (why != nil) != (k.Protocol == objects.SCTP) {
					t.Errorf("%s: refused for %v", k, why)
				}
			}
			holds(t, cfg, p)
		})
	}
	if seen == 0 {
		t.Error("no case has SCTP")
	}
}

func holds(t *testing.T, cfg dataplane.Config, p *plan.Plan) {
	t.Helper()
	got, err := dump(cfg.NetNS, cfg.Pins)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dataplane.Render(p), got); diff != "" {
		t.Errorf("the maps (-want +got):\n%s", diff)
	}
}

// A map that is full refuses what comes, by name, and nothing else: what is there stays whole, and
// what is taken away makes room.
func TestFullMapsRefuse(t *testing.T) {
	t.Parallel()
	for what, sizes := range map[string]dataplane.Sizes{
		"frontends": {Frontends: 8, Endpoints: 1 << 10, Sources: 16, Connections: 1 << 10, Clients: 16},
		"endpoints": {Frontends: 1 << 10, Endpoints: 13, Sources: 16, Connections: 1 << 10, Clients: 16},
	} {
		t.Run(what, func(t *testing.T) {
			cfg := config(t, netns.ForTest(t, "node").FD())
			cfg.Sizes = sizes
			target := started(t, cfg)
			small := planOf(service{number: 1, endpoints: both(2)})
			large := planOf(service{number: 1, endpoints: append(both(2), both(3)...)}, service{number: 2, endpoints: append(both(2), both(3)...)})
			apply(t, target, nil, small)
			holds(t, cfg, small)
			var refused *plan.Refused
			if err := target.Apply(t.Context(), small, large); !errors.As(err, &refused) || len(refused.Frontends) == 0 {
				t.Fatalf("applied with %v", err)
			}
			for k := range refused.Frontends {
				if plan.Index(large)[k] == nil {
					t.Errorf("%s is refused, which is not in the plan", k)
				}
			}
			mixed := large.Without(refused.Frontends)
			for name, s := range small.Services { // as it was
				for _, f := range s.Frontends {
					if refused.Frontends[f.Key] != nil {
						now := mixed.Services[name]
						now.Frontends = append(now.Frontends, f)
						mixed.Services[name] = now
					}
				}
			}
			holds(t, cfg, mixed)
			apply(t, target, large, small)
			holds(t, cfg, small)
		})
	}
}

// Whatever of these somebody does to the maps, a complete Apply mends.
func TestDamage(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	target := started(t, cfg)
	p := planOf(service{number: 1, endpoints: append(both(2), both(3)...), leaving: both(4)}, service{number: 2})
	apply(t, target, nil, p)
	for _, name := range []string{"plumb_addrs", "plumb_fronts", "plumb_slots", "plumb_members", "plumb_networks"} {
		for _, how := range []string{"one is gone", "all are gone"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				m, err := ebpf.LoadPinnedMap(filepath.Join(dataplane.LayoutFolder(cfg.Pins), name), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				gone := 0
				for {
					key, err := m.NextKeyBytes(nil)
					if err != nil {
						t.Fatal(err)
					}
					if key == nil || gone == 1 && how == "one is gone" {
						break
					}
					if err := m.Delete(key); err != nil {
						t.Fatal(err)
					}
					gone++
				}
				if gone == 0 {
					t.Fatal("the map was empty")
				}
				apply(t, target, nil, p)
				holds(t, cfg, p)
				counted(t, cfg)
			})
		}
	}
}

// counted: what is in the maps is all of some frontend's.
func counted(t *testing.T, cfg dataplane.Config) {
	t.Helper()
	for name, want := range map[string]int{"plumb_slots": 16, "plumb_members": 24} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dataplane.LayoutFolder(cfg.Pins), name), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		n, it, key, value := 0, m.Iterate(), make([]byte, m.KeySize()), make([]byte, m.ValueSize())
		for it.Next(&key, &value) {
			n++
		}
		if n != want || it.Err() != nil {
			t.Errorf("map %s has %d entries (%v), want %d", name, n, it.Err(), want)
		}
	}
}

// Left names what Clean removes, which is everything; and what is there though its pins are lost.
func TestClean(t *testing.T) {
	t.Parallel()
	p := planOf(service{number: 1, endpoints: both(2)})
	for _, c := range []struct {
		lost, noTCX bool
		what        string
	}{{false, false, "program"}, {true, false, "program"}, {false, true, "filter"}, {true, true, "filter"}} {
		if !hasTCX(t) {
			c.what = "filter"
		}
		w := newWorld(t, p, func(cfg *dataplane.Config) { cfg.NoTCX = c.noTCX })
		left := func() string {
			t.Helper()
			names, err := dataplane.Left(w.FD(), w.cfg.Pins, false)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(names, "\n")
		}
		if c.lost {
			if err := os.RemoveAll(w.cfg.Pins); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{c.what + " plumb_ingress at out", c.what + " plumb_egress at pa"} {
			if got := left(); !strings.Contains(got, want) {
				t.Errorf("left is %q, without %q", got, want)
			}
		}
		for range 2 { // the second time there is nothing
			if err := dataplane.Clean(w.FD(), w.cfg.Pins, false); err != nil {
				t.Fatal(err)
			}
			if got := left(); got != "" {
				t.Errorf("after cleaning there is %q", got)
			}
		}
	}
}

// Maps of other sizes are replaced, and filled before they serve.
func TestOtherSizes(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	w := newWorld(t, p, nil)
	w.echo(pod(false, 2))
	cfg := w.cfg
	cfg.Sizes.Endpoints *= 2
	apply(t, started(t, cfg), nil, p)
	holds(t, cfg, p)
	c, err := w.dial(dptest.PodA, objects.TCP, 0, s.vip(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := talk(c, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if n := w.count("new"); n != 1 {
		t.Errorf("the new maps have seen %d connections, want 1", n)
	}
}
