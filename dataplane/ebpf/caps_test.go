package ebpf_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// childEnv makes the test binary the child of TestCapabilities; it says how it is to attach.
const childEnv = "EBPF_TEST_CHILD"

// Everything a Target does needs NET_ADMIN and BPF and no other capability, where a bpffs is
// mounted: a child has no more, as root but for that. The programs serve when it has ended. With
// PERFMON the verifier checks less, and the same programs load; before Linux 6.12.5 only with it.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	if how := os.Getenv(childEnv); how != "" {
		child(t, how == "clsact")
		return
	}
	few := []uintptr{unix.CAP_NET_ADMIN, unix.CAP_BPF}
	version, err := features.LinuxVersionCode()
	if err != nil {
		t.Fatal(err)
	}
	young := version >= 6<<16|12<<8|5 // commit b0e66977dc07
	for _, c := range []struct {
		name  string
		keep  []uintptr
		how   string
		works bool
	}{
		{"NET_ADMIN and BPF", few, "tcx", young}, {"NET_ADMIN and BPF, clsact", few, "clsact", young},
		{"with PERFMON", append(slices.Clone(few), unix.CAP_PERFMON), "tcx", true}, {"NET_ADMIN alone", few[:1], "tcx", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := dptest.NewNet(t)
			n.Sockets(t)
			s := service{number: 1, endpoints: both(2)}
			if hasTCX(t) {
				attachForeign(t, n.Node, devicesOf(t, n.Node)[0].Index, foreign(t, 1, -1))
			}
			root, out, err := runChild(t, n, c.keep, c.how)
			if (err == nil) != c.works {
				t.Fatalf("%v\n%s", err, out)
			}
			if !c.works {
				if !strings.Contains(string(out), "load the programs") {
					t.Errorf("it fails otherwise than by the programs:\n%s", out)
				}
				if says := "without CAP_PERFMON"; strings.Contains(string(out), says) != slices.Contains(c.keep, unix.CAP_BPF) {
					t.Errorf("that it says %q is wrong:\n%s", says, out)
				}
				return
			}
			w := &world{Net: n, t: t, cfg: ebpf.Config{Pins: filepath.Join(root, "child")}}
			w.echo(pod(false, 2))
			conn, err := w.dial(dptest.Outside, objects.TCP, 0, s.nodePort(false))
			if err != nil {
				t.Fatal(err)
			}
			if err := talk(conn, []byte("x")); err != nil {
				t.Error(err)
			}
			if n := w.count("new"); n != 3 {
				t.Errorf("%d connections were translated, want 3: two of the child's own", n)
			}
			if err := ebpf.Clean(n.FD(), w.cfg.Pins, false); err != nil {
				t.Error(err)
			}
		})
	}
}

// runChild starts the test anew in the node, with these capabilities and a bpffs.
func runChild(t *testing.T, n *dptest.Net, keep []uintptr, how string) (root string, out []byte, err error) {
	t.Helper()
	if root, err = bpffs(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	path, err := dptest.Cgroup(n.FD())
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()
	err = n.As(dptest.Self, func() error { // on a thread that ends with it, and whose cgroup the child has
		want := uint64(0)
		for i := uintptr(0); i <= unix.CAP_LAST_CAP; i++ {
			if slices.Contains(keep, i) {
				want |= 1 << i
			} else if err := unix.Prctl(unix.PR_CAPBSET_DROP, i, 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", i, err)
			}
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCapabilities$", "-test.v")
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), childEnv+"="+how), []*os.File{dir, cgroup}
		var err error
		out, err = cmd.CombinedOutput()
		if says := fmt.Sprintf("CapEff %016x", want); !strings.Contains(string(out), says) {
			t.Errorf("the child does not say %q:\n%s", says, out)
		}
		return err
	})
	return root, out, err
}

// child works in the namespace that it is started in.
func child(t *testing.T, noTCX bool) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			t.Logf("CapEff %s", strings.TrimSpace(v))
		}
	}
	cfg := ebpf.Config{Logger: logger(t), Pins: "/proc/self/fd/3/child", Cgroup: "/proc/self/fd/4", Sizes: small(), NoTCX: noTCX}
	p := planOf(service{number: 1, endpoints: both(2)})
	for _, again := range []bool{false, true} { // the second one takes over
		target := started(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() { watched <- target.Watch(ctx, func() {}) }()
		apply(t, target, nil, p)
		c, err := net.Dial("udp", service{number: 1}.vip(false).String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		apply(t, target, p, planOf(service{number: 2}))
		ended(t, c)
		apply(t, target, planOf(service{number: 2}), p)
		holds(t, cfg, p)
		if again {
			if left, err := ebpf.Left(0, cfg.Pins, false); err != nil || len(left) < 19 {
				t.Errorf("what is left: %v %v", left, err)
			} else if all := strings.Join(left, "\n"); hasTCX(t) && strings.Count(all, "whose is not known") != 2 {
				t.Errorf("what is left does not name the two programs of somebody else's:\n%s", all)
			}
		}
		cancel()
		if err := <-watched; err != nil {
			t.Error(err)
		}
	}
}
