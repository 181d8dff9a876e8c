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

// damages are each map, of which an entry or all go, and everything that is attached.
func damages(t *testing.T) (out []damage) {
	for _, name := range guarded() {
		for _, most := range []int{1, 1 << 20} {
			out = append(out, damage{fmt.Sprintf("%s at most %d", name, most), func(t *testing.T, w *world) { takeOut(t, pinnedMap(t, w.cfg, name), most) }})
		}
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
		l, err := link.LoadPinnedLink(filepath.Join(dataplane.LayoutFolder(w.cfg.Pins), name+"_link"), nil)
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

// unpin returns the path of the pin.
func unpin(t *testing.T, w *world, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dataplane.LayoutFolder(w.cfg.Pins), pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("pins like %s: %q, %v", pattern, paths, err)
	}
	if err := os.Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
	return paths[0]
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// inTime judges how long things took, as a rule: one alone says how busy the host is.
func inTime(t *testing.T, what string, took []time.Duration, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %s", what, took)
	if slices.Sort(took); took[len(took)/2] > limit {
		t.Errorf("%s: half of them not within %s", what, limit)
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
	var took []time.Duration
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
			took = append(took, time.Since(begin))
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
	if len(took) > 0 {
		inTime(t, "all is back", took, limit)
	}
}

// Pins that somebody takes away are there again within a second, and nothing has to be compared for that.
func TestPinsTakenAway(t *testing.T) {
	p := planOf(service{number: 1, endpoints: both(2)})
	w := socketWorld(t, p)
	lost := watched(t, w.target)
	var took []time.Duration
	for _, pattern := range append(guarded(), "plumb_flows", "plumb_ingress_*", "plumb_egress_*", "plumb_connect4_????????????????", "plumb_udp") {
		took = append(took, await(t, "the pin of "+pattern+" is back", exists(unpin(t, w, pattern))))
	}
	inTime(t, "a pin is back", took, time.Second)
	holds(t, w.cfg, p)
	if len(lost) > 0 {
		t.Error("all is to be compared for pins alone")
	}
}

// While a device fails for good pins are put back all the same.
func TestPinsWhileOneDeviceFails(t *testing.T) {
	needTCX(t)
	n := dptest.NewNet(t)
	w := &world{Net: n, t: t, cfg: config(t, n.FD())}
	w.target = started(t, w.cfg)
	attachForeign(t, n.Node, devicesOf(t, n.Node)[0].Index, foreign(t, 63, -1))
	if err := w.target.Apply(t.Context(), nil, planOf()); err == nil {
		t.Fatal("no device fails")
	}
	watched(t, w.target)
	await(t, "the pin is back", exists(unpin(t, w, "plumb_fronts")))
}

// unpinnable takes all pins away, where none can be made until back is called.
func unpinnable(t *testing.T, w *world) (back func()) {
	t.Helper()
	folder := dataplane.LayoutFolder(w.cfg.Pins)
	if err := errors.Join(os.RemoveAll(folder), os.Symlink("nowhere", folder)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
	}
}

// Where pins cannot be made again changes are made, whether everything is compared or not, and pins come back when
// they can.
func TestPinsCannotBeMade(t *testing.T) {
	services := []service{{number: 1, endpoints: both(2)}, {number: 2, endpoints: both(2)}, {number: 3, endpoints: both(2)}}
	w := newWorld(t, planOf(services[0]), nil)
	w.echo(pod(false, 2))
	back := unpinnable(t, w)
	var old *plan.Plan
	for i := range services[1:] {
		p := planOf(services[:i+2]...)
		apply(t, w.target, old, p)
		c, err := w.dial(dptest.Outside, objects.TCP, 0, services[i+1].nodePort(false))
		if err == nil {
			err = talk(c, []byte("x"))
		}
		if err != nil {
			t.Errorf("to a new Service: %v", err)
		}
		old = p
	}
	watched(t, w.target)
	back()
	await(t, "the pins are back", func() bool {
		got, err := dataplane.Dump(w.cfg.Pins)
		return err == nil && got == dataplane.Render(old)
	})
}

// With programs at sockets as well, of which then none is attached: each would end at once. That fails no change, and
// is said until they are there again.
func TestLinksCannotBeMade(t *testing.T) {
	s, writes := service{number: 2, endpoints: both(2)}, 0
	w := socketWorld(t, planOf(), func(c *dataplane.Config) {
		c.Fault = func() error { writes++; return nil }
	})
	w.echo(pod(false, 2))
	if err := w.target.Unpinnable(); err != nil {
		t.Errorf("nothing can be pinned at first: %v", err)
	}
	p, back := planOf(s), unpinnable(t, w)
	apply(t, w.target, nil, p)
	if err := w.target.Unpinnable(); err == nil {
		t.Error("nothing is said of pins")
	}
	moved := *p
	moved.Node.LocalLink = "none" // which is another look at all devices and sockets
	apply(t, w.target, p, &moved)
	c, err := w.dial(dptest.Outside, objects.TCP, 0, s.nodePort(false))
	if err == nil {
		err = talk(c, []byte("x"))
	}
	if err != nil {
		t.Errorf("to a new Service: %v", err)
	}
	writes = 0
	if _, err := w.target.LookAtAll(); err == nil || writes > 0 {
		t.Errorf("a look writes %d times, %v", writes, err)
	}
	back()
	damaged, err := w.target.LookAtAll() // Watch puts the pins of maps back, and then this has a folder
	if err == nil || damaged {
		t.Errorf("before there is a folder: %t, %v", damaged, err)
	}
	apply(t, w.target, nil, p)
	if damaged, err := w.target.LookAtAll(); err != nil || damaged || w.target.Unpinnable() != nil {
		t.Errorf("when pins can be made again: %t, %v, %v", damaged, err, w.target.Unpinnable())
	}
	if n := len(w.atCgroup()); n != 9 {
		t.Errorf("%d programs are at the cgroup", n)
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
		if what, err := w.target.Taken(); err != nil || !slices.Equal(what, []string{name}) {
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
	var took []time.Duration
	for range 3 {
		takeOut(t, m, n)
		took = append(took, await(t, "the entries are back", func() bool { return size(t, m) == n }))
	}
	inTime(t, "they are back", took, time.Second)
}
