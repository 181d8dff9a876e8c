package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/fixtures/need"
)

const reservedPorts = "net/ipv4/ip_local_reserved_ports"

// The ports of masqueraded connections are kept from the node's programs beside those that others
// keep, once; --cleanup gives back these alone, and takes everything else away.
func TestPrepareForEBPF(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2!"))
	err := w.ns.Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", reservedPorts), []byte("20000-20010,40000"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	is := func(when, want string) {
		t.Helper()
		if got := strings.TrimSpace(w.sysctl(t, reservedPorts)); got != want {
			t.Errorf("reserved %s: %s, want %s", when, got, want)
		}
	}
	for _, when := range []string{"at first", "once more"} {
		w.output(t, "--init-only", "--backend=ebpf")
		is(when, "16384-29999,40000")
	}
	own := backend.All(w.ns.FD())["ebpf"]
	if left, err := own.Left(); err != nil || !slices.Equal(left, []string{"reserved ports 16384-19999,20011-29999"}) {
		t.Errorf("left before there was an agent: %q, %v", left, err)
	}
	w.start(t, "--backend=ebpf").end(t, syscall.SIGTERM)
	w.output(t, "--cleanup", "--backend=ebpf")
	is("after --cleanup", "20000-20010,40000")
	if left, err := own.Left(); err != nil || len(left) > 0 {
		t.Errorf("left after --cleanup: %q, %v", left, err)
	}
}

// Another backend's agent, which cannot write sysctls, takes away what it can, and says once what
// stays.
func TestReservedPortsStay(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2!"))
	w.output(t, "--init-only", "--backend=ebpf")
	w.start(t, "--backend=ebpf").end(t, syscall.SIGTERM)
	w.only([]node.Capability{node.NetAdmin})
	w.env = append(w.env, changeMounts+"="+readOnlySysctls)
	p := w.start(t, "--backend=nftables")
	var told string
	w.await(t, "an Event about what stays", func() bool {
		return slices.ContainsFunc(w.events(), func(e *corev1.Event) bool {
			told = e.Message
			return e.Reason == "LeftByAnotherProxy"
		})
	})
	if want := "of what ebpf left on this node is not taken away: give back the ports of masqueraded connections: "; !strings.HasPrefix(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	left, err := backend.All(w.ns.FD())["ebpf"].Left()
	if want := []string{"reserved ports 16384-29999"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %q, %v; want %q", left, err, want)
	}
	if text := p.log.String(); strings.Contains(text, "level=ERROR") {
		t.Errorf("it complains:\n%s", text)
	}
	w.env = []string{changeMounts + "=" + readOnlySysctls}
	for _, own := range []string{"nftables", "ebpf"} { // whichever is said to be the own one
		_, said, code := w.call(t, "--cleanup", "--backend="+own)
		if code == 0 || !strings.Contains(said, "where /proc/sys can be written") {
			t.Errorf("--cleanup --backend=%s: exit %d: %s", own, code, said)
		}
	}
}

// Another backend's agent that cannot tell what is attached takes nothing away by which it can be
// told, and says once what stays: where bpf(2) is denied, and where the node's bpffs is not in its
// container. So does --cleanup with no more rights, which fails.
func TestProgramsStay(t *testing.T) {
	for change, says := range map[string]string{
		withoutBPF: "whether programs are attached by tcx cannot be told", withoutBPFFS: "whose is not known without SYS_ADMIN",
	} {
		t.Run(change, func(t *testing.T) {
			w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2!"))
			w.start(t, "--backend=ebpf").end(t, syscall.SIGTERM)
			own := backend.All(w.ns.FD())["ebpf"]
			before, err := own.Left()
			if err != nil {
				t.Fatal(err)
			}
			w.only([]node.Capability{node.NetAdmin})
			w.env = append(w.env, changeMounts+"="+change)
			p := w.start(t, "--backend=nftables")
			var told string
			w.await(t, "an Event about what stays", func() bool {
				return slices.ContainsFunc(w.events(), func(e *corev1.Event) bool {
					told = e.Message
					return e.Reason == "LeftByAnotherProxy"
				})
			})
			p.end(t, syscall.SIGTERM)
			if !strings.Contains(told, says) || !strings.Contains(told, "table ip plumbline-ebpf") {
				t.Errorf("told %q, want %q and the table", told, says)
			}
			_, said, code := w.call(t, "--cleanup")
			if code == 0 || !strings.Contains(said, says) {
				t.Errorf("--cleanup: exit %d: %s", code, said)
			}
			if left, err := own.Left(); err != nil || !slices.Equal(left, before) {
				t.Errorf("left: %q, %v; want %q", left, err, before)
			}
			w.env = nil
			w.output(t, "--cleanup")
			if left, err := own.Left(); err != nil || len(left) > 0 {
				t.Errorf("left after --cleanup: %q, %v", left, err)
			}
		})
	}
}

// Who has every right, and not the node's bpffs, does not take programs at sockets for gone: by their pins
// alone they are found.
func TestPinsOutOfReach(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2!"))
	w.start(t, "--backend=ebpf").end(t, syscall.SIGTERM)
	w.env = []string{changeMounts + "=" + withoutBPFFS}
	if _, said, code := w.call(t, "--cleanup"); code == 0 || !strings.Contains(said, "whether programs are at sockets cannot be told: there is no bpffs at "+ebpf.Root) {
		t.Errorf("--cleanup: exit %d: %s", code, said)
	}
	w.env = nil
	if left, err := backend.All(w.ns.FD())["ebpf"].Left(); err != nil || strings.Count(strings.Join(left, "\n"), "at the sockets of a cgroup") != 9 {
		t.Errorf("left: %q, %v", left, err)
	}
	w.output(t, "--cleanup")
	if left, err := backend.All(w.ns.FD())["ebpf"].Left(); err != nil || len(left) > 0 {
		t.Errorf("left after --cleanup: %q, %v", left, err)
	}
}

// What keeps translated connections translated comes back when somebody flushes the rule set, as
// everything else does.
func TestTableFlushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, theNode())
	w.start(t, "--backend=ebpf")
	there := func() bool { return strings.Count(w.nft(t, "list", "ruleset"), "type nat hook prerouting") == 2 }
	w.await(t, "both tables", there)
	for range 3 {
		w.nft(t, "flush", "ruleset")
		w.await(t, "both tables again", there)
	}
	if a := w.get("http://" + defaultMetrics + "/metrics"); strings.Contains(a.body, "plumbline_state_lost_total 0\n") {
		t.Error("the metrics do not tell of it")
	}
}

// At a node's sockets there are all programs or, by flag or where no cgroup tells its sockets from those
// of others, none, and then it is said who is not served. They stay when the agent is killed.
func TestSocketsOnAndOff(t *testing.T) {
	w := newWorld(t, theNode(), service("web", "10.96.0.1", nil), slice("web", "10.244.1.2!"))
	programs := func() int {
		left, err := backend.All(w.ns.FD())["ebpf"].Left()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(strings.Join(left, "\n"), "at the sockets of a cgroup")
	}
	group := w.cgroup
	for _, step := range []struct {
		name, cgroup string
		args         []string
		want         int
		says         string
	}{
		{"with the node's cgroup", group, nil, 9, ""},
		{"without, in a part of the host", "", nil, 0, "as with --sockets=off, without --cgroup-root: "},
		{"with it again", group, nil, 9, ""},
		{"off", group, []string{"--sockets=off"}, 0, "none at sockets; --sockets=off"},
	} {
		w.cgroup = step.cgroup
		p := w.start(t, append(step.args, "--backend=ebpf")...)
		p.end(t, syscall.SIGKILL)
		if n := programs(); n != step.want {
			t.Errorf("%s: %d programs at sockets, want %d", step.name, n, step.want)
		}
		if text := p.log.String(); strings.Contains(text, "not served") != (step.says != "") || !strings.Contains(text, step.says) {
			t.Errorf("%s: want %q said:\n%s", step.name, step.says, text)
		}
	}
	w.cgroup = t.TempDir()
	p := w.launch(t, "--backend=ebpf")
	want := "plumb-proxy: --cgroup-root " + w.cgroup + ": there is no cgroup2 at " + w.cgroup
	w.await(t, want, func() bool { return strings.Contains(p.log.String(), want) })
	_ = p.cmd.Wait()
}

// On a node of cgroup v1 alone, whose folder is given, devices' programs serve alone; a folder that is
// none of cgroups at all is a mistake.
func TestSocketsOnCgroupV1(t *testing.T) {
	need.Root(t)
	root := t.TempDir()
	at := filepath.Join(root, "systemd")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func() (*agent.Config, error) {
		cfg := &agent.Config{Backend: backend.All(0)["ebpf"]}
		own := backendFlags{sockets: socketsAuto, cgroupRoot: root}
		return cfg, own.atSockets(cfg, func() error { t.Error("the kernel was asked"); return nil })
	}
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), "--cgroup-root "+root) {
		t.Errorf("no cgroups at all: %v", err)
	}
	if err := unix.Mount("cgroup", at, "cgroup", 0, "none,name=plumbline-test"); err != nil {
		t.Fatalf("mount a hierarchy of cgroup v1: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	cfg, err := ask()
	if err != nil || cfg.Plan.Sockets || !strings.Contains(cfg.Backend.NoNode, "as with --sockets=off: ") || !strings.Contains(cfg.Backend.NoNode, "the node has cgroup v1 alone") {
		t.Errorf("cgroup v1 alone: %v, sockets %t, of the node is said %q", err, cfg.Plan.Sockets, cfg.Backend.NoNode)
	}
}

// Where the kernel takes no programs at sockets those of devices serve alone, and it is told why the node
// itself is not served.
func TestSocketsNotTaken(t *testing.T) {
	w := newWorld(t, theNode())
	for _, c := range []struct {
		err  error
		says string
	}{{nil, ""}, {errors.New("the kernel has no programs at sockets"), "; as with --sockets=off: the kernel has no programs at sockets"}} {
		cfg := agent.Config{Backend: backend.All(w.ns.FD())["ebpf"]}
		own := backendFlags{sockets: socketsAuto, cgroupRoot: w.cgroup}
		if err := own.atSockets(&cfg, func() error { return c.err }); err != nil {
			t.Fatalf("%v: %v", c.err, err)
		}
		if at := c.err == nil; cfg.Plan.Sockets != at || (cfg.Own.Cgroup == w.cgroup) != at {
			t.Errorf("%v: the plan has sockets %t, and the cgroup is %q", c.err, cfg.Plan.Sockets, cfg.Own.Cgroup)
		}
		if !strings.HasSuffix(cfg.Backend.NoNode, c.says) || (c.says == "") != (cfg.Backend.NoNode == "") {
			t.Errorf("%v: of the node is said %q", c.err, cfg.Backend.NoNode)
		}
	}
}

// Who is not served is said once, in the log and by an Event.
func TestNodeNotServed(t *testing.T) {
	w := newWorld(t, theNode())
	w.output(t, "--init-only", "--backend=ebpf") // of a node that is prepared nothing else is told
	p := w.start(t, "--backend=ebpf", "--sockets=off")
	w.await(t, "an Event about the node's own connections", func() bool { return len(w.events()) > 0 })
	for _, e := range w.events() {
		if e.Reason != "NodeNotServed" || e.InvolvedObject.Name != "here" || !strings.Contains(e.Message, "backend ebpf does not serve connections of the node's own network namespace") {
			t.Errorf("told %s %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	p.end(t, syscall.SIGTERM) // and with it what it said is read
	if n := strings.Count(p.log.String(), "are not served"); n != 1 {
		t.Errorf("said %d times:\n%s", n, p.log)
	}
}

// Without a bpffs nothing is begun, and it is said how to get one.
func TestWithoutBPFFS(t *testing.T) {
	w := newWorld(t, theNode())
	w.env = append(w.env, changeMounts+"="+withoutBPFFS)
	p := w.launch(t, "--backend=ebpf")
	want := "there is no bpffs at " + ebpf.Mount + "; plumb-proxy --init-only --backend=ebpf mounts one"
	w.await(t, want, func() bool { return strings.Contains(p.log.String(), want) })
	p.end(t, syscall.SIGTERM)
	if out := w.output(t, "--init-only", "--backend=ebpf"); out != "" {
		t.Errorf("said %q", out)
	}
}
