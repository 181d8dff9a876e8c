package ebpf_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// A sweep deletes connections when the programs take them for ended.
func TestSweepsConnections(t *testing.T) {
	t.Parallel()
	swept := func(w *world, _ frame, _ netip.AddrPort, d time.Duration) { w.swept(d) }
	t.Run("tcp", func(t *testing.T) { tcpLasts(t, swept) })
	t.Run("udp", func(t *testing.T) { udpLasts(t, swept) })
}

// The same of clients with affinity and of fragments.
func TestSweepsTheRest(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2), sticky: true}
	w := newWorld(t, planOf(s), nil)
	seen := used{at: time.Now()}
	w.goes(frame{device: "pa", src: from(podA), dst: s.vip(false), proto: objects.UDP, fragment: 0x2000})
	for _, later := range []time.Duration{28 * time.Second, 3 * time.Second, 3*time.Hour - 35*time.Second, 6 * time.Second} {
		w.age(later)
		seen.aged += later
		for name, lasts := range map[string]time.Duration{"plumb_affinity": 3 * time.Hour, "plumb_frags": 30 * time.Second} {
			if n := w.remembered(name); seen.wrong(n, lasts) {
				t.Errorf("%s later %d are in %s, where one lasts for %s", seen.aged, n, name, lasts)
			}
		}
	}
}

// used is an entry that was last used at a moment, or after it, and has been made so much older.
type used struct {
	at   time.Time
	aged time.Duration
}

// wrong tells whether a sweep should have left another number of it: it is that much older at least,
// and not more than that and all that has passed.
func (u used) wrong(n int, lasts time.Duration) bool {
	const tick = 10 * time.Millisecond // by which the programs' clock is late at most
	switch n {
	case 0:
		return u.aged+time.Since(u.at)+tick < lasts
	case 1:
		return u.aged > lasts
	}
	return true
}

// remembered is how many entries of a map a sweep leaves.
func (w *world) remembered(name string) int {
	w.t.Helper()
	if err := w.target.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	uses := w.target.Uses()
	i := slices.IndexFunc(uses, func(u ebpf.Use) bool { return u.Map == name })
	if i < 0 {
		w.t.Fatalf("no map %s in %v", name, uses)
	}
	if uses[i].Size == 0 {
		w.t.Errorf("map %s has no size", name)
	}
	return uses[i].Entries
}

// A map that is nearly full is told of until it is so by far no more. What has ended counts until it
// is swept: the kernel makes room by what was unused for longest, which may be an idle connection
// that is open and older than one that was short.
func TestCrowded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), func(c *ebpf.Config) { c.Sizes.Connections = 10000 })
	at := func(n int, crowded bool) {
		t.Helper()
		got := w.remembered("plumb_flows")
		lines := w.target.Crowded()
		if got != n || (len(lines) == 1 && strings.Contains(lines[0], "map plumb_flows is nearly full")) != crowded || len(lines) > 1 {
			t.Errorf("with %d entries, want %d: %q, want one line: %t", got, n, lines, crowded)
		}
	}
	fill := func(from, to int, open bool) {
		t.Helper()
		if err := ebpf.Fill(w.cfg.Pins, from, to, open); err != nil {
			t.Fatal(err)
		}
	}
	fewer := func(from, to int) {
		t.Helper()
		if err := ebpf.Forgotten(w.cfg.Pins, from, to); err != nil {
			t.Fatal(err)
		}
	}
	fill(0, 8500, true)
	at(8500, false)
	fill(8500, 9200, false)
	at(8500, true)
	fewer(0, 600)
	at(7900, false)
	fill(0, 600, true)
	fill(8500, 9000, true)
	at(9000, true)
	fewer(0, 900)
	at(8100, true)
	fewer(900, 1100)
	at(7900, false)
	fill(0, 1000, true)
	at(8900, false)
}

// Watch sweeps; before the first Apply there is nothing to tell.
func TestWatchSweeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), nil)
	if err := ebpf.Fill(w.cfg.Pins, 0, 5000, false); err != nil {
		t.Fatal(err)
	}
	w.watched()
	await(t, "there has been a sweep", func() bool { return len(w.target.Uses()) == 3 })
	if n := size(t, pinnedMap(t, w.cfg, "plumb_flows")); n != 0 {
		t.Errorf("%d entries of connections that ended are there", n)
	}
	if uses := ebpf.New(w.cfg).Uses(); len(uses) != 0 {
		t.Errorf("before there were maps: %v", uses)
	}
}

// A map that was found nearly full is swept again soon, though little of it was alive.
func TestSweepsTheCrowdedSooner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), func(c *ebpf.Config) { c.Sizes.Connections = 10000 })
	fill := func() {
		t.Helper()
		if err := ebpf.Fill(w.cfg.Pins, 0, 9500, false); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	w.watched()
	flows := pinnedMap(t, w.cfg, "plumb_flows")
	await(t, "the first sweep is over", func() bool { return len(w.target.Uses()) == 3 })
	if n := size(t, flows); n != 0 {
		t.Errorf("it has left %d entries", n)
	}
	fill()
	await(t, "it is swept again", func() bool { return size(t, flows) == 0 })
}

func BenchmarkSweep(b *testing.B) {
	w := newWorld(b, planOf(), func(c *ebpf.Config) { c.Sizes = ebpf.DefaultSizes() })
	const n = 200000
	for name, open := range map[string]bool{"open": true, "ended": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if err := ebpf.Fill(w.cfg.Pins, 0, n, open); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := w.target.Sweep(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/entry")
		})
	}
}
