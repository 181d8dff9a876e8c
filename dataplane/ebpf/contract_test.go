package ebpf_test

import (
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
)

var update = flag.Bool("update", false, "rewrite the ebpf sections of the cases")

const cases = "../testdata"

func FuzzNames(f *testing.F) { dptest.FuzzNames(f, backend()) }

func backend() dptest.Backend {
	return dptest.Backend{
		Section: "ebpf",
		Render:  ebpf.Render,
		New: func(t *testing.T, netns int) dptest.Target {
			return started(t, config(t, netns))
		},
		Faulty: func(t *testing.T, netns int, fault func() error) dptest.Target {
			cfg := config(t, netns)
			cfg.Fault = fault
			return started(t, cfg)
		},
		Dump: func(netns int) (string, error) {
			return at(netns, func(pins string) (string, error) { return dump(netns, pins) })
		},
		Clean: func(netns int) error {
			_, err := at(netns, func(pins string) (int, error) { return 0, ebpf.Clean(netns, pins, false) })
			return err
		},
		Forget: func(netns int) error {
			_, err := at(netns, func(pins string) (int, error) { return 0, ebpf.Forget(pins) })
			return err
		},
		NoSCTP:  "the eBPF programs forward TCP and UDP",
		NoNode:  "the node's own connections are routed before a program of its devices sees them",
		Unasked: dptest.Unasked{Cases: 71, Random: 31, Connections: 1},
	}
}

// atSockets is the backend with programs at sockets too, which serve the node's own.
func atSockets() dptest.Backend {
	b := backend()
	b.New = func(t *testing.T, netns int) dptest.Target { return started(t, socketConfig(t, netns)) }
	b.Faulty = func(t *testing.T, netns int, fault func() error) dptest.Target {
		cfg := socketConfig(t, netns)
		cfg.Fault = fault
		return started(t, cfg)
	}
	b.Sockets, b.Unasked = true, dptest.Unasked{Cases: 1, Random: 1}
	b.NoNode = "what a policy drops at an address of the node's own arrives there, and where an endpoint is at an address that is for Services a device decides for pods"
	return b
}

// bpffs is one that nobody else sees, and that ends with the process.
var bpffs = sync.OnceValues(func() (string, error) {
	fs, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open bpffs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", fmt.Errorf("make bpffs: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	return fmt.Sprintf("/proc/self/fd/%d", mount), err
})

// at calls f with the folder of a namespace.
func at[T any](netns int, f func(pins string) (T, error)) (out T, err error) {
	root, err := bpffs()
	if err != nil {
		return out, err
	}
	pins, err := ebpf.Folder(root, netns)
	if err != nil {
		return out, err
	}
	return f(pins)
}

func config(t testing.TB, netns int) ebpf.Config {
	t.Helper()
	pins, err := at(netns, func(pins string) (string, error) { return pins, nil })
	if err != nil {
		t.Fatal(err)
	}
	return ebpf.Config{
		Logger: logger(t), NetNS: netns, Pins: pins,
		Sizes: small(), Grace: time.Millisecond,
	}
}

// socketConfig is config with the cgroup of the namespace's node.
func socketConfig(t testing.TB, netns int) ebpf.Config {
	t.Helper()
	cfg := config(t, netns)
	var err error
	if cfg.Cgroup, err = dptest.Cgroup(netns); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// dump is that of maps from which everything has gone that is to go in a while, and what is
// missing beside.
func dump(netns int, pins string) (string, error) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(soon / 2); ; <-again.C {
		text, err := ebpf.Dump(pins)
		if err != nil {
			return "", err
		}
		if strings.Contains(text, "left over") && time.Now().Before(end) {
			continue
		}
		missing, err := ebpf.Missing(netns, pins)
		return withMissing(text, missing), err
	}
}

func withMissing(text string, missing []string) string {
	for _, what := range missing {
		text += "missing: " + what + "\n"
	}
	return text
}

// small maps are enough for any case.
func small() ebpf.Sizes {
	return ebpf.Sizes{Frontends: 1 << 13, Endpoints: 1 << 14, Sources: 1 << 12, Connections: 1 << 14, Clients: 1 << 12}
}

// last has the target of a folder of pins that was started last.
var last sync.Map

// At the end of the test each map has the entries that the target has written, if no other one has
// written since.
func started(t testing.TB, cfg ebpf.Config) *ebpf.Target {
	target := ebpf.New(cfg)
	last.Store(cfg.Pins, target)
	t.Cleanup(func() {
		wrong, err := target.Wrong()
		if writer, _ := last.Load(cfg.Pins); writer == target && (err != nil || len(wrong) > 0) {
			t.Errorf("other entries than were written are in %q, %v", wrong, err)
		}
		_ = target.Close()
	})
	return target
}

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// The packets are the same by filters of a clsact qdisc, as where there is no tcx.
func TestClsact(t *testing.T) {
	b := backend()
	b.New = func(t *testing.T, netns int) dptest.Target {
		cfg := config(t, netns)
		cfg.NoTCX = true
		return started(t, cfg)
	}
	dptest.Packets(t, cases, b)
	t.Run("Connections", func(t *testing.T) { dptest.Connections(t, b) })
}

// With programs at sockets the whole contract holds as well, with the node's own rows, and what begins
// on the node keeps its source.
func TestAtSockets(t *testing.T) { dptest.Contract(t, cases, atSockets(), *update) }

func TestContract(t *testing.T) { dptest.Contract(t, cases, backend(), *update) }
