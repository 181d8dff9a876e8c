package agent

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A backend's own looks are the agent's, with that at sysctls for what forwards, and that at the
// forward hook for what others' rules there may stop.
func TestLooks(t *testing.T) {
	own := backend.Running{Looks: []backend.Look{{Reason: "Own"}}}
	for name, c := range map[string]struct {
		b      backend.Backend
		cgroup string
		want   []string
	}{
		"takes connections in": {backend.Backend{}, "", []string{"Own"}},
		"rules":                {backend.Backend{Keeps: backend.Conntrack}, "/x", []string{"Own", "SysctlAmiss"}},
		"programs at devices":  {backend.Backend{Keeps: backend.Maps, Forwarded: true, Sockets: true}, "", []string{"Own", "SysctlAmiss", "ForwardDropped"}},
		"programs":             {backend.Backend{Keeps: backend.Maps, Forwarded: true, Sockets: true}, "/x", []string{"Own", "SysctlAmiss", "ForwardDropped", "SocketProgramsAbove"}},
	} {
		var got []string
		for _, l := range New(Config{Backend: c.b, Own: backend.Options{Cgroup: c.cgroup}}).looks(own) {
			got = append(got, l.Reason)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: looks (-want +got):\n%s", name, diff)
		}
	}
}

// A chain that drops forwarded packets is told of by its name.
func TestForwardDropped(t *testing.T) {
	need.Root(t)
	need.Program(t, "nft")
	ns := netns.ForTest(t, "n")
	look := forwarding(&Config{NetNS: ns.FD()})
	if found, err := look.Amiss(); err != nil || len(found) > 0 {
		t.Errorf("in an empty namespace: %q, %v", found, err)
	}
	err := ns.Do(func() error {
		return exec.Command("nft", "add table inet wall; add chain inet wall x { type filter hook forward priority 0; policy drop; }").Run()
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "chain x of table inet wall drops forwarded packets that none of its rules accepts"
	if found, err := look.Amiss(); err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("found %q, %v, want %q", found, err, want)
	}
}

// What others have attached above the node's cgroup is told of in one line; what they have at the node's own
// is not.
func TestSocketProgramsAbove(t *testing.T) {
	need.Root(t)
	tree := t.TempDir()
	if err := unix.Mount("none", tree, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(tree, 0); err != nil {
			t.Error(err)
		}
	})
	above := filepath.Join(tree, "plumbline-agent-"+filepath.Base(filepath.Dir(tree)))
	node := filepath.Join(above, "node")
	for _, dir := range []string{above, node} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "denies", Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l, err := link.AttachCgroup(link.CgroupOptions{Path: above, Attach: ebpf.AttachCGroupInet4Connect, Program: p})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if found, err := atSockets(node).Amiss(); err != nil || len(found) != 1 || !strings.Contains(found[0], "above the node's") || !strings.Contains(found[0], "program denies at hook connect4") {
		t.Errorf("found %q, %v", found, err)
	}
	if found, err := atSockets(above).Amiss(); err != nil || strings.Contains(strings.Join(found, ""), "denies") {
		t.Errorf("at the node's own cgroup: %q, %v", found, err)
	}
}

// Metrics with labels are asked for once when they are read; one that cannot be read is said in the
// log and keeps no other back.
func TestSeries(t *testing.T) {
	broken, asked := false, 0
	var log strings.Builder
	m := newMetrics("x", func() loop.Status { return loop.Status{} }, func() conntrack.Stats { return conntrack.Stats{} }, backend.Running{Series: backend.Series{
		Metrics: []backend.Metric{{Name: "x_total", Help: "Xs.", Labels: []string{"reason", "side"}, Total: true}, {Name: "y", Help: "Ys.", Labels: []string{"map"}}},
		Read: func(emit func(string, float64, ...string)) error {
			asked++
			emit("y", 5, "m")
			if broken {
				return errors.New("no map")
			}
			emit("x_total", 3, "policy", "in")
			emit("x_total", 4, "policy", "out")
			return nil
		},
	}})
	read := func() string {
		w := httptest.NewRecorder()
		m.handler(slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	text := read()
	for _, line := range []string{"# TYPE x_total counter", `x_total{reason="policy",side="in"} 3`, `x_total{reason="policy",side="out"} 4`, "# TYPE y gauge", `y{map="m"} 5`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
	if asked != 1 {
		t.Errorf("they are read %d times at once", asked)
	}
	broken = true
	if text := read(); strings.Contains(text, "x_total{") || !strings.Contains(text, `y{map="m"} 5`) || !strings.Contains(log.String(), "no map") {
		t.Errorf("with a metric that cannot be read: log %q", log.String())
	}
}
