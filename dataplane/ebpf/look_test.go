package ebpf_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// damage is something that somebody takes away.
type damage struct {
	name string
	take func(t *testing.T, w *world)
}

// guarded are the maps of which nobody takes an entry unseen.
func guarded() []string {
	return []string{"plumb_addrs", "plumb_fronts", "plumb_slots", "plumb_members", "plumb_sources", "plumb_networks"}
}

// damages are each map, of which an entry or all go, and everything that is attached or pinned.
func damages(t *testing.T) (out []damage) {
	for _, name := range guarded() {
		for _, most := range []int{1, 1 << 20} {
			out = append(out, damage{fmt.Sprintf("%s at most %d", name, most), func(t *testing.T, w *world) { takeOut(t, pinnedMap(t, w.cfg, name), most) }})
		}
		out = append(out, damage{"the pin of " + name, func(t *testing.T, w *world) { unpin(t, w, name) }})
	}
	for _, pattern := range []string{"plumb_ingress_*", "plumb_connect4_????????????????", "plumb_udp"} {
		out = append(out, damage{"the pin of " + pattern, func(t *testing.T, w *world) { unpin(t, w, pattern) }})
	}
	for _, name := range []string{"getpeer", "recvmsg", "connect", "sendmsg"} {
		for _, family := range []string{"4", "6"} {
			out = append(out, cut("plumb_"+name+family))
		}
	}
	return append(out, cut("plumb_release"), damage{"all programs of a device", func(t *testing.T, w *world) {
		if err := detach(w.Node, devicesOf(t, w.Node)[0].Index, nil); err != nil {
			t.Fatal(err)
		}
	}})
}

func cut(name string) damage {
	return damage{"the link of " + name, func(t *testing.T, w *world) {
		l, err := link.LoadPinnedLink(filepath.Join(w.cfg.Pins, "v1", name+"_link"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.Detach(); err != nil {
			t.Fatal(err)
		}
	}}
}

// takeOut deletes at most so many entries of a map, of which there is at least one.
func takeOut(t *testing.T, m *ebpf.Map, most int) {
	t.Helper()
	for n := range most {
		key, err := m.NextKeyBytes(nil)
		if err != nil || key == nil && n == 0 {
			t.Fatalf("the next of map %s: %v, %v", m, key, err)
		}
		if key == nil {
			return
		}
		if err := m.Delete(key); err != nil {
			t.Fatal(err)
		}
	}
}

func unpin(t *testing.T, w *world, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.cfg.Pins, "v1", pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("pins like %s: %q, %v", pattern, paths, err)
	}
	if err := os.Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
}

// restricted is a plan whose Service has source ranges that let everybody in.
func restricted(p *plan.Plan) *plan.Plan {
	for _, s := range p.Services {
		for i := range s.Frontends {
			if f := &s.Frontends[i]; !f.Key.IsWildcard() && f.Key.IsNodePort() {
				f.Restricted, f.Sources = true, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			}
		}
	}
	return p
}

// Whatever somebody takes away, a running agent has it back within a second, everything is as it was,
// and packets are served.
func TestTakenAway(t *testing.T) {
	s := service{number: 1, endpoints: append(both(2), both(3)...), leaving: both(4)}
	p := restricted(planOf(s))
	w := socketWorld(t, p)
	w.echo(pod(false, 2))
	w.echo(pod(false, 3))
	limit := time.Second
	if !w.target.Tells() { // Linux 6.4; else counting must not cost much
		limit = soon
	}
	lost := watched(t, w.target)
	for _, d := range damages(t) {
		t.Run(d.name, func(t *testing.T) {
			d.take(t, w)
			begin := time.Now()
			select {
			case <-lost:
			case <-time.After(soon):
				t.Fatal("nothing is told of it")
			}
			apply(t, w.target, nil, p)
			if took := time.Since(begin); took > limit {
				t.Errorf("all is back after %s only", took)
			}
			holds(t, w.cfg, p)
			for _, c := range []struct {
				from dptest.Source
				to   netip.AddrPort
			}{{dptest.Self, s.vip(false)}, {dptest.PodA, s.vip(false)}, {dptest.Outside, s.nodePort(false)}} {
				for _, proto := range []objects.Protocol{objects.TCP, objects.UDP} {
					conn, err := w.dial(c.from, proto, 0, c.to)
					if err == nil {
						err = talk(conn, []byte("x"))
					}
					if err != nil {
						t.Errorf("%s from %s to %s: %v", proto, c.from, c.to, err)
					}
				}
			}
			for len(lost) > 0 { // it was also seen where it was mended
				<-lost
			}
		})
	}
}

// Entries are counted one by one as well, where a kernel does not tell what they take.
func TestTakenAwayCounted(t *testing.T) {
	p := restricted(planOf(service{number: 1, endpoints: both(2)}))
	w := newWorld(t, p, nil)
	for _, name := range guarded() {
		w.target.CountOneByOne()
		if what, err := w.target.Taken(); err != nil || len(what) > 0 {
			t.Fatalf("before anything: %q, %v", what, err)
		}
		takeOut(t, pinnedMap(t, w.cfg, name), 1)
		if what, err := w.target.Taken(); err != nil || !slices.Equal(what, []string{"entries of map " + name}) {
			t.Errorf("of %s is told %q, %v", name, what, err)
		}
		if what, err := w.target.Taken(); err != nil || len(what) > 0 {
			t.Errorf("once more: %q, %v", what, err)
		}
		apply(t, w.target, nil, p)
	}
}

// What was taken out is put back before anything is compared: that finds nothing to write.
func TestRefill(t *testing.T) {
	p := restricted(planOf(service{number: 1, endpoints: both(2), leaving: both(4)}))
	failing := false
	w := newWorld(t, p, func(c *dataplane.Config) {
		c.Fault = func() error {
			if failing {
				return errors.New("nothing is to be written")
			}
			return nil
		}
	})
	for _, name := range guarded() {
		takeOut(t, pinnedMap(t, w.cfg, name), 1<<20)
		if _, err := w.target.Taken(); err != nil {
			t.Fatal(err)
		}
		failing = true
		if err := w.target.Apply(t.Context(), nil, p); err != nil {
			t.Errorf("of map %s something was to be written: %v", name, err)
		}
		failing = false
		apply(t, w.target, nil, p)
		holds(t, w.cfg, p)
	}
}

// What it costs to put back what one map lacks.
func BenchmarkRefill(b *testing.B) {
	for _, n := range sizes {
		w := dptest.NewNet(b)
		target := started(b, benchConfig(b, w))
		apply(b, target, nil, many(n))
		for _, name := range guarded()[:4] {
			b.Run(fmt.Sprintf("%s/services=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					target.Refill(name)
				}
			})
		}
	}
}

// What it costs to look whether something is gone, by what the kernel tells, and one by one.
func BenchmarkLook(b *testing.B) {
	for _, n := range sizes {
		w := dptest.NewNet(b)
		target := started(b, benchConfig(b, w))
		apply(b, target, nil, many(n))
		ask := func(b *testing.B) {
			for b.Loop() {
				if what, err := target.Taken(); err != nil || len(what) > 0 {
					b.Fatal(what, err)
				}
			}
		}
		b.Run(fmt.Sprintf("told/services=%d", n), ask)
		target.CountOneByOne()
		b.Run(fmt.Sprintf("counted/services=%d", n), ask)
	}
}

// The entries of devices are back within a second as well.
func TestDevicesTakenOut(t *testing.T) {
	w := newWorld(t, planOf(), nil)
	watched(t, w.target)
	m := pinnedMap(t, w.cfg, "plumb_devices")
	n := size(t, m)
	takeOut(t, m, n)
	if took := await(t, "the entries are back", func() bool { return size(t, m) == n }); took > time.Second {
		t.Errorf("they are back after %s only", took)
	}
}
