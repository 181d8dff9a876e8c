package ebpf_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// inPlace are the numbers of what a build with another layout goes on with: links, by the names of their
// pins, and maps of what programs remember.
func inPlace(t *testing.T, pins, layout string) map[string]uint32 {
	t.Helper()
	out := map[string]uint32{}
	links, err := filepath.Glob(filepath.Join(pins, layout, "*_link"))
	if err != nil || len(links) != 9 {
		t.Fatalf("links are pinned at %q, %v", links, err)
	}
	for _, path := range links {
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := l.Info()
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = uint32(info.ID)
		_ = l.Close()
	}
	for _, name := range []string{"plumb_flows", "plumb_affinity", "plumb_frags", "plumb_peers", "plumb_counts", "plumb_tallies", "plumb_sent", "plumb_udp"} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pins, layout, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		out[name] = uint32(id)
		_ = m.Close()
	}
	return out
}

// aloneWith sees to it that nothing is attached twice, or lacks, and no other layout has pins.
func aloneWith(t *testing.T, w *world, layout string) {
	t.Helper()
	if n := len(w.atCgroup()); n != 9 {
		t.Errorf("%d programs are at the cgroup", n)
	}
	for _, d := range devicesOf(t, w.Node) {
		if n := programs(t, w.Node, d.Index); n != 2 {
			t.Errorf("device %s has %d programs", d.Name, n)
		}
	}
	folders, err := os.ReadDir(w.cfg.Pins)
	if err != nil || len(folders) != 1 || folders[0].Name() != layout {
		t.Errorf("the folders are %v, %v", folders, err)
	}
}

// A build with another layout has the links of its predecessor and the maps of what programs remember,
// and fills all others; nothing is attached twice, and that one's folder goes. What has another form is
// forgotten, and told of.
func TestAnotherLayout(t *testing.T) {
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	w := socketWorld(t, p)
	w.echo(pod(false, 2))
	outside, err := w.dial(dptest.Outside, objects.TCP, 0, s.nodePort(false))
	if err != nil {
		t.Fatal(err)
	}
	before := inPlace(t, w.cfg.Pins, filepath.Base(dataplane.LayoutFolder("")))
	defer dataplane.AnotherLayout("v8")()
	apply(t, started(t, w.cfg), nil, p)
	holds(t, w.cfg, p)
	if diff := cmp.Diff(before, inPlace(t, w.cfg.Pins, "v8")); diff != "" {
		t.Errorf("links and maps are others (-before +after):\n%s", diff)
	}
	aloneWith(t, w, "v8")
	if err := talk(outside, []byte("x")); err != nil {
		t.Errorf("an open connection: %v", err)
	}

	defer dataplane.AnotherLayout("v9")()
	log, cfg := &strings.Builder{}, w.cfg
	cfg.Logger, cfg.Sizes.Connections = slog.New(slog.NewTextHandler(log, nil)), 2*cfg.Sizes.Connections
	apply(t, started(t, cfg), nil, p)
	holds(t, cfg, p)
	for _, name := range []string{"plumb_flows", "plumb_udp"} {
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(l string) bool {
			return strings.Contains(l, "is forgotten") && strings.Contains(l, "v8/"+name)
		}) {
			t.Errorf("the log tells nothing of %s:\n%s", name, log)
		}
	}
	c, err := w.dial(dptest.Outside, objects.TCP, 0, s.nodePort(false))
	if err == nil {
		err = talk(c, []byte("x"))
	}
	if err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

// takeOver is a process of a build with a layout that ends at the nth of its writes, or later for good. It tells how many
// it made.
func takeOver(t *testing.T, cfg dataplane.Config, p *plan.Plan, layout string, ends int) (writes int) {
	t.Helper()
	defer dataplane.AnotherLayout(layout)()
	fails := errors.New("ended")
	cfg.Fault = func() error {
		if writes++; writes >= ends {
			return fails
		}
		return nil
	}
	target := started(t, cfg)
	err := target.Apply(t.Context(), nil, p)
	if err = errors.Join(err, target.Close()); err != nil && !errors.Is(err, fails) {
		t.Fatal(err)
	}
	if err == nil && writes >= ends {
		t.Fatalf("it did not end at write %d of %d", ends, writes)
	}
	return writes
}

// A build with another layout that ends while it takes over, at whatever write, leaves what its predecessor goes on
// with, and what another of its own does; open connections go on, and new ones are served.
func TestEndsWhileAnotherLayout(t *testing.T) {
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	w := socketWorld(t, p)
	w.echo(pod(false, 2))
	open, err := w.dial(dptest.Outside, objects.TCP, 0, s.nodePort(false))
	if err != nil {
		t.Fatal(err)
	}
	const never = 1 << 30
	all := takeOver(t, w.cfg, p, "v8", never)
	attached := 2*len(devicesOf(t, w.Node)) + 9 // by the last writes
	if all <= attached {
		t.Fatalf("%d writes, of which %d attach", all, attached)
	}
	was, next := "v8", "v9"
	for n, ends := range append([]int{1, (all - attached) / 2}, span(all-attached, all)...) {
		takeOver(t, w.cfg, p, next, ends)
		if err := talk(open, []byte("x")); err != nil {
			t.Errorf("an open connection, after an end at write %d of %d: %v", ends, all, err)
		}
		heirs := []string{was, next}
		if n%2 == 1 {
			heirs = []string{next, was}
		}
		for _, layout := range heirs {
			takeOver(t, w.cfg, p, layout, never)
			aloneWith(t, w, layout)
			for _, from := range []dptest.Source{dptest.Outside, dptest.PodA, dptest.Self} {
				to := s.vip(false)
				if from == dptest.Outside {
					to = s.nodePort(false)
				}
				c, err := w.dial(from, objects.TCP, 0, to)
				if err == nil {
					err = talk(c, []byte("x"))
				}
				if err != nil {
					t.Errorf("from %s, when layout %s took over after an end at write %d of %d: %v", from, layout, ends, all, err)
				}
			}
		}
		was, next = heirs[1], heirs[0]
	}
	if err := talk(open, []byte("x")); err != nil {
		t.Errorf("an open connection: %v", err)
	}
}

// span are the numbers from one to another, both included.
func span(from, to int) (out []int) {
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}
