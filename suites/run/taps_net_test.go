//go:build linux

package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

// A node between a balancer and a pod, which is to translate its node port.
//
//	balancer 192.0.2.1 ---- 192.0.2.2 node 10.244.0.1 ---- 10.244.0.2 pod
func tapped(t *testing.T, translate func(t *testing.T, node *netns.NS)) (balancer, node, pod *netns.NS) {
	t.Helper()
	balancer, node, pod = netns.ForTest(t, "lb"), netns.ForTest(t, "node"), netns.ForTest(t, "pod")
	addr := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	err := errors.Join(
		netns.Veth(netns.End{NS: balancer, Name: "eth0", Addrs: addr("192.0.2.1/24")}, netns.End{NS: node, Name: "eth0", Addrs: addr("192.0.2.2/24")}),
		netns.Veth(netns.End{NS: node, Name: "pod0", Addrs: addr("10.244.0.1/24")}, netns.End{NS: pod, Name: "eth0", Addrs: addr("10.244.0.2/24")}),
		pod.Route(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.244.0.1")),
		node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	translate(t, node)
	return balancer, node, pod
}

// byRules translates where netfilter does, after the tap of a device has seen a packet come in and
// before that of one sees it go.
func byRules(t *testing.T, node *netns.NS) {
	t.Helper()
	err := node.Do(func() error {
		return nft("table ip t { chain c { type nat hook prerouting priority dstnat; tcp dport 30080 dnat to 10.244.0.2:8080; }; }")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// byPrograms translates at the devices themselves.
func byPrograms(t *testing.T, node *netns.NS) {
	t.Helper()
	own := backend.All(node.FD())["ebpf"]
	if err := own.Prepare(); err != nil {
		t.Fatal(err)
	}
	running := own.Start(backend.Options{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		if err := errors.Join(running.Close(), own.Clean()); err != nil {
			t.Error(err)
		}
	})
	to := plan.Endpoint{Addr: netip.MustParseAddr("10.244.0.2"), Port: 8080, Local: true}
	p := &plan.Plan{
		Node: plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.2")}},
		Services: map[objects.Name]plan.Service{{Namespace: "ns", Name: "echo"}: {Frontends: []plan.Frontend{{
			Key: plan.Key{Protocol: objects.TCP, Port: 30080}, Kind: plan.NodePort,
			Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{to}, Masquerade: plan.KeepSource},
		}}}},
	}
	if err := running.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
}

// nft runs in the calling thread's namespace.
func nft(rules string) error {
	out, err := exec.Command("nft", rules).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// served asks the node port from a source port of its own, and says whether an answer came in a time.
func served(t *testing.T, from *netns.NS, port int, within time.Duration) bool {
	t.Helper()
	answered := false
	err := from.Do(func() error {
		d := net.Dialer{Timeout: within, LocalAddr: &net.TCPAddr{Port: port}}
		c, err := d.DialContext(t.Context(), "tcp", "192.0.2.2:30080")
		if err != nil {
			return nil // it is what some ask for
		}
		defer c.Close()
		if _, err := io.WriteString(c, "ask\n"); err != nil {
			return nil
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		answered = err == nil && line == "answer\n"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return answered
}

// TestTaps: what is recorded of requests that a node keeps, refuses, and whose pod is silent or
// refuses, names who it was, wherever the node translates; of those that were answered nothing is kept.
func TestTaps(t *testing.T) {
	for by, translate := range map[string]func(*testing.T, *netns.NS){"rules": byRules, "programs": byPrograms} {
		t.Run(by, func(t *testing.T) { testTaps(t, translate) })
	}
}

func testTaps(t *testing.T, translate func(*testing.T, *netns.NS)) {
	balancer, node, pod := tapped(t, translate)
	var l net.Listener
	err := pod.Do(func() (err error) {
		l, err = net.Listen("tcp4", "10.244.0.2:8080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					_, _ = io.WriteString(c, "answer\n")
				}
			}()
		}
	}()
	ports := verdict.Ports{Node: 30080, Pod: 8080}
	seen := newTaps([]cluster.Node{{Name: "n1", NetNS: filepath.Join(netns.Dir, node.Name)}, {Name: "beyond"}}, ports)
	type request struct {
		in    *netns.NS
		rule  string
		cause verdict.Cause
	}
	requests := []request{
		{nil, "", ""},
		{node, "hook prerouting priority -500; tcp dport { 30080, 8080 } drop", verdict.CauseNodeDrop},
		{node, "hook forward priority 0; tcp dport 8080 reject", verdict.CauseNodeReject},
		{node, "hook forward priority 0; tcp dport 8080 reject with tcp reset", verdict.CauseNodeReject},
		{pod, "hook input priority 0; tcp dport 8080 drop", verdict.CausePodDrop},
		{pod, "hook input priority 0; tcp dport 8080 reject with tcp reset", verdict.CausePodReject},
		{pod, "hook input priority 0; tcp flags & psh == psh reject with tcp reset", verdict.CausePodReset},
		{nil, "", ""},
	}
	in := verdict.Input{Settings: verdict.Settings{LB: "ns/echo", Timeout: 900 * time.Millisecond, Deadline: time.Second, Rate: 1, Ports: ports}}
	sides := map[netip.AddrPort]bool{}
	for i, r := range requests {
		if r.in != nil {
			if err := r.in.Do(func() error { return nft("table ip broken { chain c { type filter " + r.rule + "; }; }") }); err != nil {
				t.Fatal(err)
			}
		}
		a := record.Attempt{Stream: record.Main, Seq: i, Start: record.Now(), Src: netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), uint16(1000+i))}
		a.Intended, a.Connected = a.Start, a.Start+1
		side := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(40000+i))
		within := time.Minute
		if r.in != nil {
			within = time.Second
		}
		answered := served(t, balancer, 40000+i, within)
		if a.End = record.Now(); answered { // however busy this host is
			a.End = a.Start + int64(10*time.Millisecond)
		}
		if answered != (r.in == nil) {
			t.Fatalf("%s: answered %v", r.rule, answered)
		}
		c := record.Conn{LB: "ns/echo", Client: a.Src, Server: "n1", Source: side, Accepted: a.Connected, At: a.End, DialMS: -1, Term: "SC"}
		if r.in != nil {
			sides[side] = true
			a.Phase, a.Failure = record.PhaseRead, record.FailEOF
			if strings.HasSuffix(r.rule, "drop") {
				a.Failure, a.End = record.FailTimeout, a.Start+int64(time.Second)
			}
			if err := r.in.Do(func() error { return nft("delete table ip broken") }); err != nil {
				t.Fatal(err)
			}
		} else {
			a.Phase, a.Status, a.BodyOK = record.PhaseDone, 200, true
		}
		in.Attempts, in.Conns = append(in.Attempts, a), append(in.Conns, c)
	}
	dir := t.TempDir()
	to, err := tape.Create(dir, in.Settings)
	if err != nil {
		t.Fatal(err)
	}
	seen.stop(to, sides)
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := tape.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range kept[0].Packets {
		if !sides[p.Src] && !sides[p.Dst] {
			t.Errorf("kept of a request that was answered: %+v", p)
		}
	}
	if e := kept[0].Events; len(e) != 1 || e[0].Kind != record.KindTap || e[0].Node != "n1" || e[0].State != record.TapComplete {
		t.Errorf("what is said of taps: %+v", e)
	}
	in.Packets, in.Events = kept[0].Packets, kept[0].Events
	for i, p := range verdict.Judge(in).Series.Points {
		if p.Cause != requests[i].cause {
			t.Errorf("%s: cause %q, want %q", requests[i].rule, p.Cause, requests[i].cause)
		}
	}
}
