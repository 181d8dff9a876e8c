package kit

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// capturing is a spec whose client is in one node and whose target is another.
//
//	a 192.0.2.1, 2001:db8::1 ---- 192.0.2.2, 2001:db8::2 b
func capturing(t *testing.T) (*Spec, Client, *netns.NS) {
	t.Helper()
	a, b := netns.ForTest(t, "a"), netns.ForTest(t, "b")
	err := netns.Veth(
		netns.End{NS: a, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}},
		netns.End{NS: b, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8::2/64")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	c := Client{Name: "a", probe: prober(t, "a", a.Do)}
	awaken(t, c, "192.0.2.2", "2001:db8::2")
	e := &Env{cfg: Config{Dir: t.TempDir()}, nodes: []*Node{{Name: "a", NetNS: a.Path()}, {Name: "b", NetNS: b.Path()}}}
	return &Spec{Family: corev1.IPv4Protocol, env: e, ctx: t.Context(), id: "x"}, c, a
}

// prober makes attempts from the namespace that do enters.
func prober(t *testing.T, name string, do func(func() error) error) *remote.Client {
	t.Helper()
	place, err := sock.NewPlace(do)
	if err != nil {
		t.Fatal(err)
	}
	c := remote.Local(t.Context(), name, place.Socket)
	t.Cleanup(func() {
		c.Close()
		if err := place.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// awaken has the neighbours know each other: first packets wait for that.
func awaken(t *testing.T, c Client, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		to := netip.AddrPortFrom(netip.MustParseAddr(a), 9)
		res, err := c.probe.Batch(t.Context(), remote.Batch{Network: remote.TCP, Target: to, Resend: true, Timeout: 10 * time.Second})
		if err != nil || !res.Summary().All(remote.Refused) {
			t.Fatalf("attempt of %s to %s: %v, %v", c.Name, to, res, err)
		}
	}
}

func kept(t *testing.T, s *Spec, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.env.cfg.Dir, "x", "ipv4", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The packets of a refused attempt are kept on both nodes, with what answers them.
func TestCaptured(t *testing.T) {
	for to, answer := range map[Target]string{
		TCP(netip.MustParseAddrPort("192.0.2.2:80")):     "tcp 192.0.2.2:80 > 192.0.2.1:",
		UDP(netip.MustParseAddrPort("[2001:db8::2]:80")): "icmp6 2001:db8::2 > 2001:db8::1 type 1 code 4 (port unreachable)",
	} {
		s, c, _ := capturing(t)
		s.env.captured(s, trial{client: c, to: to}, nil)
		if got := kept(t, s, "attempts-captured.txt"); !strings.Contains(got, "of this repetition") || strings.Count(got, "\nfrom ") != 6 {
			t.Errorf("attempts to %s:\n%s", to, got)
		}
		for _, node := range []string{"a", "b"} {
			text := kept(t, s, node+"-packets.txt")
			if strings.Count(text, "> "+to.to.String()) < 6 || !strings.Contains(text, answer) {
				t.Errorf("packets to %s at node %s:\n%s", to, node, text)
			}
			if file := kept(t, s, node+".pcap"); !bytes.HasPrefix([]byte(file), []byte{0x4d, 0x3c, 0xb2, 0xa1}) {
				t.Errorf("file of node %s: %.24x", node, file)
			}
		}
		if len(s.files) != 5 || s.attempts != 0 {
			t.Errorf("files %v, %d attempts counted", s.files, s.attempts)
		}
		if len(s.said) != 1 || !strings.Contains(s.said[0], "made again") {
			t.Errorf("said: %q", s.said)
		}
	}
}

// nat makes node a forward 198.51.100.1:80 to node b, as from itself and from another port.
const nat = `table ip nat {
	chain in { type nat hook prerouting priority dstnat; ip daddr 198.51.100.1 meta l4proto { tcp, udp } th dport 80 dnat to 192.0.2.2:8080; }
	chain out { type nat hook postrouting priority srcnat; meta l4proto { tcp, udp } th dport 8080 masquerade fully-random; }
}`

// What becomes of an attempt behind a node that translates both its ends is kept,
// and nobody else's packets are.
//
//	c 198.51.100.2 ---- 198.51.100.1 a 192.0.2.1 ---- 192.0.2.2 b
func TestCapturedTranslated(t *testing.T) {
	need.Program(t, "nft")
	s, _, a := capturing(t)
	c := netns.ForTest(t, "c")
	err := netns.Veth(
		netns.End{NS: c, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}},
		netns.End{NS: a, Name: "eth1", Addrs: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(nat)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	client := Client{Name: "c", probe: prober(t, "c", c.Do)}
	awaken(t, client, "198.51.100.1")
	for network, to := range map[string]Target{"tcp": TCP(netip.MustParseAddrPort("198.51.100.1:80")), "udp": UDP(netip.MustParseAddrPort("198.51.100.1:80"))} {
		others, err := client.probe.Stream(t.Context(), remote.Batch{Network: to.network, Target: netip.MustParseAddrPort("198.51.100.1:81"), Rate: 100}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		s.env.captured(s, trial{client: client, to: to}, nil)
		if res, err := others.Stop(t.Context()); err != nil || len(res.Attempts) < 10 {
			t.Fatalf("others' attempts: %v, %v", res, err)
		}
		there := kept(t, s, "b-packets.txt")
		if strings.Count(there, "eth0 in "+network+" 192.0.2.1:") != repeats || strings.Count(there, " > 192.0.2.2:8080 ") != repeats {
			t.Errorf("%s, behind the node:\n%s", network, there)
		}
		here := kept(t, s, "a-packets.txt")
		if strings.Count(here, "eth1 in "+network+" 198.51.100.2:") != repeats || strings.Count(here, "eth0 out "+network+" 192.0.2.1:") != repeats || strings.Contains(here, ":81 ") {
			t.Errorf("%s, at the node:\n%s", network, here)
		}
	}
}

// A node without a way in, and one whose namespace is gone, are left out; it is
// said, and that is all.
func TestCapturedOutOfReach(t *testing.T) {
	s, c, _ := capturing(t)
	to := TCP(netip.MustParseAddrPort("192.0.2.2:80"))
	s.env.nodes = []*Node{s.env.nodes[0], {Name: "far"}, {Name: "gone", NetNS: "/no/such/ns"}}
	s.env.captured(s, trial{client: c, to: to}, nil)
	kept(t, s, "a.pcap")
	if len(s.said) != 3 || !strings.Contains(s.said[0], "gone") || !strings.Contains(s.said[1], "far") {
		t.Errorf("said: %q", s.said)
	}
	s.files, s.env.nodes = nil, s.env.nodes[1:2]
	s.env.captured(s, trial{client: c, to: to}, nil)
	if len(s.files) > 0 {
		t.Errorf("without a node attempts were made again: %v", s.files)
	}
}

// A source that nodes translate is followed from one to the next.
func TestFollow(t *testing.T) {
	at := netip.MustParseAddrPort
	ends := map[netip.AddrPort]bool{at("10.0.0.1:4000"): true}
	follow(ends, []flow{
		{at("192.0.2.1:5000"), at("192.0.2.2:6000")},
		{at("10.0.0.1:4001"), at("192.0.2.1:5001")},
		{at("10.0.0.1:4000"), at("192.0.2.1:5000")},
	})
	if len(ends) != 3 || !ends[at("192.0.2.1:5000")] || !ends[at("192.0.2.2:6000")] {
		t.Errorf("ends: %v", ends)
	}
}

// What a load balancer is told and what it says is kept.
func TestKeepHAProxyState(t *testing.T) {
	need.Program(t, "haproxy")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, haproxy.OwnDir), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := "global\n  stats socket " + filepath.Join(dir, haproxy.StatsSocket) + " level admin\n" +
		"defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n" +
		"listen tcp-80-v4\n  bind unix@" + filepath.Join(dir, "in") + "\n  server node-1 192.0.2.1:30000\n"
	path := filepath.Join(dir, haproxy.ConfigFile)
	if err := os.WriteFile(path, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("haproxy", "-db", "-f", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, ended := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-done
	})
	go func() {
		defer close(done)
		ended(fmt.Errorf("haproxy ended: %w", cmd.Wait()))
	}()
	if _, err := haproxy.NewClient(dir).Await(ctx, func(haproxy.Running) bool { return true }); err != nil {
		t.Fatal(err, context.Cause(ctx))
	}
	s := &Spec{Family: corev1.IPv4Protocol, env: &Env{cfg: Config{Dir: t.TempDir()}}, id: "x"}
	keepHAProxy(t.Context(), s, "svc", dir)
	got := kept(t, s, "svc-haproxy-state.txt")
	for _, want := range []string{"> show info\nName: HAProxy", "> show servers state\n1\n", " node-1 192.0.2.1 ", "tcp-80-v4,node-1,"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if len(s.said) > 0 || len(s.files) != 2 {
		t.Errorf("said %q, files %v", s.said, s.files)
	}
}

// What a load balancer is told is kept even if it does not answer.
func TestKeepHAProxy(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "haproxy.cfg"), []byte("global\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Spec{Family: corev1.IPv4Protocol, env: &Env{cfg: Config{Dir: t.TempDir()}}, id: "x"}
	keepHAProxy(t.Context(), s, "svc", dir)
	if got := kept(t, s, "svc-haproxy.cfg"); got != "global\n" {
		t.Errorf("kept %q", got)
	}
	if len(s.said) != 1 || !strings.Contains(s.said[0], "state is not complete") {
		t.Errorf("said: %q", s.said)
	}
}
