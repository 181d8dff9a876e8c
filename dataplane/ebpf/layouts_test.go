package ebpf_test

import (
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
	before := inPlace(t, w.cfg.Pins, "v1")
	defer dataplane.AnotherLayout("v2")()
	apply(t, started(t, w.cfg), nil, p)
	holds(t, w.cfg, p)
	if diff := cmp.Diff(before, inPlace(t, w.cfg.Pins, "v2")); diff != "" {
		t.Errorf("links and maps are others (-before +after):\n%s", diff)
	}
	if n := len(w.atCgroup()); n != 9 {
		t.Errorf("%d programs are at the cgroup", n)
	}
	for _, d := range devicesOf(t, w.Node) {
		if n := programs(t, w.Node, d.Index); n != 2 {
			t.Errorf("device %s has %d programs", d.Name, n)
		}
	}
	if err := talk(outside, []byte("x")); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	folders, err := os.ReadDir(w.cfg.Pins)
	if err != nil || len(folders) != 1 || folders[0].Name() != "v2" {
		t.Errorf("the folders are %v, %v", folders, err)
	}

	defer dataplane.AnotherLayout("v3")()
	log, cfg := &strings.Builder{}, w.cfg
	cfg.Logger, cfg.Sizes.Connections = slog.New(slog.NewTextHandler(log, nil)), 2*cfg.Sizes.Connections
	apply(t, started(t, cfg), nil, p)
	holds(t, cfg, p)
	for _, name := range []string{"plumb_flows", "plumb_udp"} {
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(l string) bool {
			return strings.Contains(l, "is forgotten") && strings.Contains(l, "v2/"+name)
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
