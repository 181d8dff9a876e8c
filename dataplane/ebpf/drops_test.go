package ebpf_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cilium "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// watched runs Watch until the test ends; lost is not asked for.
func (w *world) watched() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.target.Watch(ctx, func() {}) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

func telling(f func(ebpf.Drop)) func(context.Context) func(ebpf.Drop) {
	return func(context.Context) func(ebpf.Drop) { return f }
}

// A packet that goes no further is counted under its reason and under no other, and shown with
// that, as it was.
func TestDrops(t *testing.T) {
	t.Parallel()
	serving, none, restricted, local, empty := service{number: 1, endpoints: both(2)}, service{number: 2}, service{number: 3, endpoints: both(2)}, service{number: 4}, service{number: 5, endpoints: both(2)}
	p := planOf(serving, none, restricted, local, empty)
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	change := func(name string, f func(*plan.Frontend)) {
		s := p.Services[objects.Name{Namespace: "default", Name: name}]
		for i := range s.Frontends {
			if !s.Frontends[i].Key.IsWildcard() {
				f(&s.Frontends[i])
			}
		}
	}
	change("web-3", func(f *plan.Frontend) { f.Restricted = true })
	change("web-4", func(f *plan.Frontend) { f.Outside.Action = plan.Drop })
	seen := make(chan ebpf.Drop, 100)
	w := newWorld(t, p, func(c *ebpf.Config) {
		c.Dropped = telling(func(d ebpf.Drop) { seen <- d })
		c.SNATPorts = [2]uint16{61000, 61000}
	})
	if err := ebpf.ForgetSlots(w.cfg.Pins, plan.Key{Addr: empty.vip(false).Addr(), Protocol: objects.UDP, Port: 80}); err != nil {
		t.Fatal(err)
	}
	w.watched()
	w.through(frame{device: "out", src: outside(1), dst: serving.nodePort(false), proto: objects.UDP}) // has the only port
	first := frame{device: "pa", src: from(podA), dst: none.vip(false), proto: objects.UDP}
	await(t, "somebody reads", func() bool { w.ingress(first); return len(seen) > 0 })
	w.shown(seen, "refused", first, false, time.Now().Add(-soon))
	data := frame{src: from(podA), dst: none.vip(false), proto: objects.TCP, flags: syn}.transport()
	covered := []string{"refused", "refusal-limited", "no-masquerade", "no-entry"} // TestRefusalsLimited; a node without addresses; thirty ports in a row that are taken
	for reason, f := range map[string]frame{
		"refused-rest":   {dst: netip.AddrPortFrom(serving.vip(false).Addr(), 81), proto: objects.TCP, flags: syn},
		"not-answered":   {src: from("0.0.0.0:68"), dst: none.vip(false), proto: objects.UDP},
		"refusal-failed": {dst: none.vip(false), proto: objects.TCP, body: append(data, "data"...)},
		"source-range":   {dst: restricted.vip(false), proto: objects.UDP},
		"policy":         {dst: local.vip(false), proto: objects.UDP},
		"no-service":     {dst: from("10.96.9.9:80"), proto: objects.UDP},
		"untranslated":   {device: "world", dst: from("10.96.9.9:80"), proto: objects.UDP},
		"no-snat-port":   {device: "out", src: outside(2), dst: serving.nodePort(false), proto: objects.UDP},
		"no-slot":        {dst: empty.vip(false), proto: objects.UDP},
		"fragment":       {dst: netip.AddrPortFrom(serving.vip(false).Addr(), 0), proto: objects.UDP, fragment: 2, body: make([]byte, 16)},
		"malformed":      {dst: netip.AddrPortFrom(serving.vip(false).Addr(), 0), proto: objects.TCP, body: []byte{1, 2, 3, 4}},
		"not-written":    {dst: serving.vip(false), proto: objects.TCP, body: data[:14]},
	} {
		covered = append(covered, reason)
		run, leaving := w.ingress, reason == "untranslated"
		if leaving {
			run = w.egress
		}
		if f.device == "" {
			f.device = "pa"
		}
		if !f.src.IsValid() {
			f.src = from(podA)
		}
		if reason == "not-written" {
			f.flags = syn
		}
		before := w.counts()
		begin := time.Now()
		if verdict, _ := run(f); verdict != isDropped && verdict != isSent {
			t.Errorf("%s: verdict %d", reason, verdict)
		}
		after := w.counts()
		for _, other := range ebpf.Reasons() {
			want := before[other]
			if other == reason {
				want++
			}
			if after[other] != want {
				t.Errorf("%s: counter %s went from %d to %d", reason, other, before[other], after[other])
			}
		}
		w.shown(seen, reason, f, leaving, begin)
	}
	for _, reason := range ebpf.Reasons() {
		if !slices.Contains(covered, reason) {
			t.Errorf("no packet here is stopped as %s", reason)
		}
	}
	apply(t, w.target, nil, p) // the slots are back
}

func (w *world) shown(seen <-chan ebpf.Drop, reason string, f frame, leaving bool, begin time.Time) {
	w.t.Helper()
	src, dst := f.src, f.dst
	if reason == "fragment" || reason == "malformed" { // it has no ports
		src = netip.AddrPortFrom(src.Addr(), 0)
	}
	select {
	case d := <-seen:
		for d.Reason == "refused" && reason != "refused" { // there may be more of the first ones
			d = <-seen
		}
		if d.Reason != reason || d.Src != src || d.Dst != dst || d.Protocol != f.proto || d.Leaving != leaving || d.Device == 0 {
			w.t.Errorf("%s: shown is %+v, want it from %s to %s", reason, d, src, dst)
		}
		if d.At.Before(begin.Add(-time.Second)) || d.At.After(time.Now().Add(time.Second)) {
			w.t.Errorf("%s: shown as of %s", reason, d.At)
		}
	case <-time.After(soon):
		w.t.Errorf("%s: not shown", reason)
	}
}

func (w *world) counts() map[string]uint64 {
	w.t.Helper()
	all, err := ebpf.CountedAt(w.cfg.Pins)
	if err != nil {
		w.t.Fatal(err)
	}
	return all.Counts
}

// Of many packets of one reason a few are shown, and they hide no other reason.
func TestDropsAreFew(t *testing.T) {
	t.Parallel()
	none, serving := service{number: 2}, service{number: 1, endpoints: both(2)}
	seen := make(chan ebpf.Drop, 10000)
	w := newWorld(t, planOf(none, serving), func(c *ebpf.Config) { c.Dropped = telling(func(d ebpf.Drop) { seen <- d }) })
	w.watched()
	fragment := frame{device: "pa", src: from(podA), dst: netip.AddrPortFrom(serving.vip(false).Addr(), 0), proto: objects.UDP, fragment: 2, body: make([]byte, 16)}
	refused := frame{device: "pa", src: from(podA), dst: netip.AddrPortFrom(serving.vip(false).Addr(), 81), proto: objects.TCP, flags: syn}
	await(t, "somebody reads", func() bool { w.ingress(refused); return len(seen) > 0 })
	begin, many := coarse(t), 400
	for range many {
		w.ingress(fragment)
	}
	took := coarse(t) - begin
	w.ingress(frame{device: "pa", src: from(podA), dst: none.vip(false), proto: objects.UDP})
	fragments := 0
	for {
		select {
		case d := <-seen:
			if d.Reason == "fragment" {
				fragments++
			}
			if d.Reason != "refused" {
				continue
			}
		case <-time.After(soon):
			t.Fatal("the other reason is not shown")
		}
		break
	}
	if most := runtime.NumCPU() * (10 + int(took*10/time.Second)); fragments < 10 || fragments > most {
		t.Errorf("of %d fragments in %s %d are shown, want 10 to %d", many, took, fragments, most)
	}
	if n := w.count("fragment"); n != uint64(many) {
		t.Errorf("%d fragments are counted, want %d", n, many)
	}
}

// A sample of another size, as programs of another build may write, ends what is shown and nothing
// else: devices that come have their programs. It is said once.
func TestDropsOfAnotherBuild(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1000)
	w := newWorld(t, planOf(), func(c *ebpf.Config) {
		c.Dropped = telling(func(ebpf.Drop) {})
		c.Logger = slog.New(slog.NewTextHandler(saying(said), &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	lost := watched(t, w.target)
	write := sampler(t, pinnedMap(t, w.cfg, "plumb_samples"))
	await(t, "it is said", func() bool { write(); return len(said) > 0 })
	if line := <-said; !strings.Contains(line, "packets that go no further are not shown any more") || !strings.Contains(line, "it has 8 bytes") {
		t.Errorf("said is %s", line)
	}
	index := devicesOf(t, w.Node)[0].Index
	if err := detach(w.Node, index, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the program is back, and told of", func() bool { return programs(t, w.Node, index) == 2 && len(lost) > 0 })
	write()
	for len(said) > 0 {
		if line := <-said; strings.Contains(line, "not shown") {
			t.Errorf("said once more: %s", line)
		}
	}
}

// saying takes what is logged.
type saying chan<- string

func (s saying) Write(b []byte) (int, error) { s <- string(b); return len(b), nil }

// sampler writes eight bytes to a ring buffer: only programs can.
func sampler(t *testing.T, ring *cilium.Map) (write func()) {
	t.Helper()
	p, err := cilium.NewProgram(&cilium.ProgramSpec{Type: cilium.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -8), asm.Mov.Imm(asm.R3, 8), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return func() {
		if _, _, err := p.Test(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
}

// There is one place where a packet is dropped, and it takes a reason.
func TestOnePlaceDrops(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("bpf/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte("TC_ACT_SHOT"))
	}
	if n != 1 {
		t.Errorf("TC_ACT_SHOT is in the sources %d times, want it in stop() alone", n)
	}
}

// More refusals than a processor may send are dropped, under a reason of their own; a while later
// there are some again, and what is not refused is not held up.
func TestRefusalsLimited(t *testing.T) {
	t.Parallel()
	none, serving := service{number: 2}, service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(none, serving), nil)
	ingress := w.program("plumb_ingress")
	defer ingress.Close()
	syns := frame{device: "pa", src: from(podA), dst: none.vip(false), proto: objects.TCP, flags: syn}
	const limit, many = 1000, 3000
	sent, dropped := 0, 0
	begin := coarse(t)
	w.in(w.Node, func() error {
		return onOneCPU(func() error {
			for range many {
				verdict, _, err := syns.through(ingress)
				if err != nil {
					return err
				}
				if verdict == isSent {
					sent++
				} else if verdict == isDropped {
					dropped++
				}
			}
			return nil
		})
	})
	took := coarse(t) - begin
	if most := limit + int(took*limit/time.Second); sent < limit || sent > most || sent+dropped != many {
		t.Errorf("of %d in %s %d are answered and %d dropped; want %d to %d answered", many, took, sent, dropped, limit, most)
	}
	if a, b := w.count("refused"), w.count("refusal-limited"); a != uint64(sent) || b != uint64(dropped) {
		t.Errorf("counted are %d and %d, want %d and %d", a, b, sent, dropped)
	}
	syns.dst = serving.vip(false)
	w.goes(syns)
	syns.dst = none.vip(false)
	await(t, "one more is answered", func() bool { verdict, _ := w.ingress(syns); return verdict == isSent })
}

// coarse is the time by the clock that the programs at the devices read (bpf_ktime_get_coarse_ns): it
// moves by whole ticks, so that what another clock says has passed is up to a tick less.
func coarse(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// onOneCPU keeps the thread that it is called on at one processor.
func onOneCPU(f func() error) error {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &all))
}
