package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// What the programs count is among the metrics: packets by why they went no further, and those of a
// frontend; and how much of each map is used. Here a Service refuses what comes from the node's pod.
func TestEBPFTells(t *testing.T) {
	need.Root(t)
	node, pod := netns.ForTest(t, "n"), netns.ForTest(t, "p")
	connect(t, node, pod)
	root, err := bpffs(t)
	if err != nil {
		t.Fatal(err)
	}
	pins := filepath.Join(root, "node")
	seen := make(chan string, 100)
	target := ebpf.New(ebpf.Config{
		Logger: slog.New(slog.DiscardHandler), NetNS: node.FD(), Pins: pins, Sizes: ebpf.Sizes{Frontends: 64, Endpoints: 64, Sources: 64, Connections: 1024, Clients: 1024},
		Dropped: ebpfDropped(slog.New(slog.NewTextHandler(lines(seen), &slog.HandlerOptions{Level: slog.LevelDebug}))),
	})
	t.Cleanup(func() { _ = target.Close() })
	vip := netip.MustParseAddrPort("10.96.0.1:80")
	key := plan.Key{Addr: vip.Addr(), Protocol: objects.UDP, Port: 80}
	p := &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "web"}: {Frontends: []plan.Frontend{{Key: key, Kind: plan.ClusterIP, Outside: plan.Route{Action: plan.Reject}}}}}}
	if all, err := target.Counted(); err != nil || all.Counts != nil {
		t.Errorf("before there were maps: %v, %v", all, err)
	}
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- target.Watch(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-watched; err != nil {
			t.Error(err)
		}
	})
	read := func() (out []string) {
		series := ebpfSeries(target)
		labels := map[string]int{}
		for _, m := range series.Metrics {
			labels[m.Name] = len(m.Labels)
		}
		err := series.Read(func(name string, v float64, with ...string) {
			if n, is := labels[name]; !is || n != len(with) {
				t.Errorf("%s: labels %q", name, with)
			}
			out = append(out, fmt.Sprintf("%s%q %g", name, with, v))
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	sent := 0
	for end := time.After(10 * time.Second); len(seen) == 0 || len(target.Uses()) == 0; {
		select {
		case <-end:
			t.Fatalf("nothing is said of a packet that is refused; %q", read())
		case <-again.C:
			knock(t, pod, vip)
			sent++
		}
	}
	if line := <-seen; !strings.Contains(line, `level=DEBUG msg="packet refused" reason=refused proto=udp from=10.244.1.2:`) || !strings.Contains(line, "to="+vip.String()) {
		t.Errorf("said is %s", line)
	}
	got := read()
	for _, want := range []string{
		`plumbline_ebpf_connections_total[] 0`, `plumbline_ebpf_unknown_tcp_packets_total[] 0`, `plumbline_ebpf_taken_ports_total[] 0`,
		fmt.Sprintf(`plumbline_ebpf_stopped_packets_total["refused"] %d`, sent), `plumbline_ebpf_stopped_packets_total["policy"] 0`,
		fmt.Sprintf(`plumbline_ebpf_frontend_stopped_packets_total["10.96.0.1:80/UDP" "refused"] %d`, sent),
		`plumbline_ebpf_map_entries["plumb_flows"] 0`, `plumbline_ebpf_map_size["plumb_flows"] 1024`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if text := strings.Join(got, "\n"); strings.Count(text, "_frontend_") != 1 {
		t.Errorf("of frontends more is told than what was counted:\n%s", text)
	}
}

// Ports of masqueraded connections that are not reserved are told of, until they are; so are those
// that somebody takes back.
func TestEBPFLooks(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	is := func(when, ports string) {
		t.Helper()
		for _, l := range ebpfLooks(ebpf.New(ebpf.Config{}), ns.FD()) {
			found, err := l.Amiss()
			if err != nil || (len(found) > 0) != (ports != "" && l.Reason == "PortsNotReserved") {
				t.Errorf("%s: %s: %q, %v", when, l.Reason, found, err)
			} else if len(found) > 0 && !strings.HasPrefix(found[0], "ports "+ports+" are") {
				t.Errorf("%s: %q, want ports %s", when, found, ports)
			}
		}
	}
	is("at first", "16384-29999")
	root, err := bpffs(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := ebpf.Prepare(ns.FD(), filepath.Join(root, "node")); err != nil {
		t.Fatal(err)
	}
	is("prepared", "")
	err = ns.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_reserved_ports", []byte("20000,40000"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	is("overwritten", "16384-19999,20001-29999")
}

// A frontend's connections and packets are counted apart, and what is 0 is left out.
func TestTalliesTold(t *testing.T) {
	key := func(port uint16) plan.Key {
		return plan.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: objects.TCP, Port: port}
	}
	var got []string
	emitTallies(map[plan.Key]ebpf.Tally{key(1): {}, key(2): {Connections: 5}, key(3): {Refused: 6, Dropped: 7}}, func(name string, v float64, labels ...string) {
		got = append(got, fmt.Sprintf("%s%q %g", name, labels, v))
	})
	slices.Sort(got)
	want := []string{
		`plumbline_ebpf_frontend_connections_total["10.96.0.1:2/TCP"] 5`,
		`plumbline_ebpf_frontend_stopped_packets_total["10.96.0.1:3/TCP" "dropped"] 7`, `plumbline_ebpf_frontend_stopped_packets_total["10.96.0.1:3/TCP" "refused"] 6`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("told is %q, want %q", got, want)
	}
}

// lines takes what is logged.
type lines chan<- string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// connect makes a pod of a node's: 10.244.1.2, and all else by 10.244.1.1.
func connect(t *testing.T, node, pod *netns.NS) {
	t.Helper()
	err := netns.Veth(
		netns.End{NS: node, Name: "pod", Addrs: []netip.Prefix{netip.MustParsePrefix("10.244.1.1/24")}},
		netns.End{NS: pod, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("10.244.1.2/24")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.Route(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.244.1.1")); err != nil {
		t.Fatal(err)
	}
}

// knock sends a packet to a Service and waits until that is refused.
func knock(t *testing.T, from *netns.NS, to netip.AddrPort) {
	t.Helper()
	err := from.Do(func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err = c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("read: %w, want a refusal", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bpffs is one that nobody else sees, and that ends with the process.
func bpffs(t *testing.T) (string, error) {
	fs, err := unix.Fsopen("bpf", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open bpffs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", fmt.Errorf("make bpffs: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("mount bpffs: %w", err)
	}
	t.Cleanup(func() { _ = unix.Close(mount) })
	return fmt.Sprintf("/proc/self/fd/%d", mount), nil
}

// The verifier's words are kept in a file of their own, of the last load alone, also where a process
// loads again and again.
func TestVerifierLogFile(t *testing.T) {
	need.Root(t)
	root, err := bpffs(t)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	target := ebpf.New(ebpf.Config{
		Logger: slog.New(slog.DiscardHandler), NetNS: netns.ForTest(t, "n").FD(), Pins: filepath.Join(root, "node"),
		Sizes: ebpf.Sizes{Frontends: 64, Endpoints: 64, Sources: 64, Connections: 1024, Clients: 1024}, Verifier: verifierLog(path),
	})
	for range 2 {
		if err := target.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
			t.Fatal(err)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(path)
		if n := strings.Count(string(said), "program plumb_ingress\n"); err != nil || n != 1 || !strings.Contains(string(said), "verification time") {
			t.Errorf("%d bytes with %d times the program, %v", len(said), n, err)
		}
	}
	if _, err := verifierLog(path + "/below")(); err == nil {
		t.Error("a file below a file is opened")
	}
}

// Packets are shown to nobody who has not asked for so much.
func TestDroppedAtDebug(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level}))
		if got := ebpfDropped(log)(t.Context()) != nil; got != want {
			t.Errorf("at %s packets are read: %t, want %t", level, got, want)
		}
	}
}

// A counter is told of while it rises, and never for what it had when it was first looked at; a new map begins at 0.
func TestRising(t *testing.T) {
	broken := errors.New("broken")
	type state struct {
		n    uint64
		is   bool
		err  error
		told bool
	}
	var now state
	look := rising(func() (uint64, bool, error) { return now.n, now.is, now.err }, "x")
	for i, s := range []state{
		{0, false, nil, false}, {7, true, nil, false}, {7, true, nil, false}, {8, true, nil, true}, {9, true, nil, true},
		{9, true, broken, false}, {10, true, nil, true}, {10, true, nil, false}, {2, true, nil, false}, {3, true, nil, true},
	} {
		now = s
		if found, err := look(); !errors.Is(err, s.err) || len(found) > 0 != s.told {
			t.Errorf("look %d at %+v: %q, %v", i, s, found, err)
		}
	}
}

// Where all was pinned and nothing can be, a look has a line and a metric is 1; before there was anything it is not so.
func TestEBPFNothingPinned(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "n")
	root, err := bpffs(t)
	if err != nil {
		t.Fatal(err)
	}
	pins := filepath.Join(root, "node")
	target := ebpf.New(ebpf.Config{
		Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD(), Pins: pins, Sizes: ebpf.Sizes{Frontends: 64, Endpoints: 64, Sources: 64, Connections: 1024, Clients: 1024},
	})
	t.Cleanup(func() { _ = target.Close() })
	is := func(when string, want float64) {
		t.Helper()
		for _, l := range ebpfLooks(target, ns.FD()) {
			if found, err := l.Amiss(); l.Reason == "NothingPinned" && (err != nil || float64(len(found)) != want) {
				t.Errorf("%s: %q, %v", when, found, err)
			}
		}
		got := -1.0
		err := ebpfSeries(target).Read(func(name string, v float64, _ ...string) {
			if name == ebpfUnpinnable {
				got = v
			}
		})
		if err != nil || got != want {
			t.Errorf("%s: the metric is %g, %v, want %g", when, got, err, want)
		}
	}
	is("at first", 0)
	if err := target.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	is("with pins", 0)
	if err := os.RemoveAll(pins); err != nil {
		t.Fatal(err)
	}
	is("without", 1)
	if err := target.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	is("with pins again", 0)
}
