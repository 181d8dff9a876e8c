package conntrack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// world is a node between a client and two pods.
//
//	client .2 --- 192.0.2.1 node 10.244.1.1 --- pod a 10.244.1.2
//	                             10.244.1.5 --- pod b 10.244.1.6
//
// IPv6 is alike. Both pods answer UDP at ports 53 and 5353 with their name. What
// the node does not translate it forwards: Service addresses it has no rule for
// go to pod b, as by a default route, which answers at no such address.
type world struct {
	t                  testing.TB
	node, client, a, b *netns.NS
}

// The addresses of a family.
type addresses struct {
	client, node, node2, vip, lb, a, b netip.Addr
}

var byFamily = map[bool]addresses{
	false: {addr("192.0.2.2"), addr("192.0.2.1"), addr("10.244.1.1"), addr("10.96.0.10"), addr("198.51.100.7"), addr("10.244.1.2"), addr("10.244.1.6")},
	true: {addr("2001:db8:2::2"), addr("2001:db8:2::1"), addr("fd00:10:244:1::1"), addr("fd00:10:96::10"), addr("2001:db8:51::7"),
		addr("fd00:10:244:1::2"), addr("fd00:10:244:1::6")},
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func ap(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

func prefixes(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func newWorld(t testing.TB) *world {
	t.Helper()
	need.Program(t, "nft")
	w := &world{t: t, node: netns.ForTest(t, "node"), client: netns.ForTest(t, "client"), a: netns.ForTest(t, "a"), b: netns.ForTest(t, "b")}
	for _, l := range []struct {
		name      string
		ns        *netns.NS
		at, there []netip.Prefix
	}{
		{"client", w.client, prefixes("192.0.2.1/24", "2001:db8:2::1/64"), prefixes("192.0.2.2/24", "2001:db8:2::2/64")},
		{"a", w.a, prefixes("10.244.1.1/30", "fd00:10:244:1::1/126"), prefixes("10.244.1.2/30", "fd00:10:244:1::2/126")},
		{"b", w.b, prefixes("10.244.1.5/30", "fd00:10:244:1::5/126"), prefixes("10.244.1.6/30", "fd00:10:244:1::6/126")},
	} {
		w.must(netns.Veth(netns.End{NS: w.node, Name: l.name, Addrs: l.at}, netns.End{NS: l.ns, Name: "eth0", Addrs: l.there}))
		for i, def := range prefixes("0.0.0.0/0", "::/0") {
			w.must(l.ns.Route(def, l.at[i].Addr()))
		}
	}
	for i, def := range prefixes("0.0.0.0/0", "::/0") {
		w.must(w.node.Route(def, []netip.Addr{byFamily[false].b, byFamily[true].b}[i]))
	}
	w.must(w.node.Do(func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
			os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644),
			os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	}))
	for _, ns := range []*netns.NS{w.a, w.b} {
		for _, at := range []string{":53", ":5353"} {
			w.serve(ns, at)
		}
	}
	w.rules(nil) // conntrack is in use from here on
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) name(ns *netns.NS) string {
	return map[*netns.NS]string{w.a: "a", w.b: "b", w.node: "node", w.client: "client"}[ns]
}

// serve answers every datagram with the pod's name and port.
func (w *world) serve(ns *netns.NS, at string) {
	var conn net.PacketConn
	w.must(ns.Do(func() (err error) { conn, err = net.ListenPacket("udp", at); return err }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 16)
		for {
			_, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(w.name(ns)+at), from)
		}
	}()
	w.t.Cleanup(func() { conn.Close(); <-done })
}

// rules are those of a plan in the simplest form that can be: each frontend's
// first endpoint. Node ports are masqueraded, no endpoints is a refusal.
func (w *world) rules(p *plan.Plan) {
	w.t.Helper()
	var dnat, drop strings.Builder
	if p != nil {
		index := plan.Index(p)
		for _, key := range slices.SortedFunc(maps.Keys(index), plan.Key.Compare) { // node ports last
			f := index[key]
			if f.Key.IsWildcard() {
				continue
			}
			fam, at := "ip", []netip.Addr{f.Key.Addr}
			if f.Key.IPv6 {
				fam = "ip6"
			}
			if f.Key.IsNodePort() {
				at = slices.DeleteFunc(slices.Clone(p.Node.Addrs), func(a netip.Addr) bool { return a.Is6() != f.Key.IPv6 })
			}
			for _, a := range at {
				match := fmt.Sprintf("%s daddr %s %s dport %d", fam, a, f.Key.Protocol, f.Key.Port)
				if f.Restricted {
					fmt.Fprintf(&drop, "%s ct state new %s saddr != %s drop\n", match, fam, f.Sources[0])
				}
				if f.Outside.Action == plan.Forward {
					fmt.Fprintf(&dnat, "%s dnat %s to %s\n", match, fam, netip.AddrPortFrom(f.Outside.Endpoints[0].Addr, f.Outside.Endpoints[0].Port))
				} else {
					fmt.Fprintf(&drop, "%s ct state new drop\n", match)
				}
			}
		}
	}
	w.nft(fmt.Sprintf(`table inet t
delete table inet t
table inet t {
 chain pre { type filter hook prerouting priority -150;
%s }
 chain prenat { type nat hook prerouting priority dstnat;
%s }
 chain out { type nat hook output priority -100;
%s }
 chain post { type nat hook postrouting priority srcnat;
 meta l4proto { tcp, udp } ct status dnat ct original proto-dst 30053 masquerade
 }
}`, drop.String(), dnat.String(), dnat.String()))
}

func (w *world) nft(text string) {
	w.t.Helper()
	w.must(w.node.Do(func() error {
		cmd := exec.CommandContext(w.t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s\n%s", err, out, text)
		}
		return nil
	}))
}

// ask sends one datagram from a fixed port and returns who answered, "" for
// nobody: an answer that is not wanted is waited for less long.
func (w *world) ask(ns *netns.NS, sport uint16, to netip.AddrPort, want string) string {
	w.t.Helper()
	var answer string
	w.must(ns.Do(func() error {
		d := net.Dialer{LocalAddr: &net.UDPAddr{Port: int(sport)}, Control: reuse}
		conn, err := d.DialContext(w.t.Context(), "udp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("?")); err != nil {
			return err
		}
		wait := 150 * time.Millisecond
		if want != "" {
			wait = 30 * time.Second
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		buf := make([]byte, 32)
		n, _ := conn.Read(buf)
		answer = string(buf[:n])
		return nil
	}))
	return answer
}

func reuse(_, _ string, c syscall.RawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }), err)
}

// flows are the client ports of the flows in the node's table.
func (w *world) flows(protocol objects.Protocol) []uint16 {
	w.t.Helper()
	k := kernel{netns: w.node.FD(), within: answerWithin}
	defer k.close()
	var out []uint16
	for _, v6 := range []bool{false, true} {
		w.must(k.dump(w.t.Context(), filter{ipv6: v6, protocol: protocol}, true, func(f flow) {
			if f.protocol == protocol {
				out = append(out, f.src.Port())
			}
		}))
	}
	slices.Sort(out)
	return out
}

func (w *world) newFlows(tcp bool) *Flows {
	f := New(Config{Logger: logger(w.t), NetNS: w.node.FD()})
	if tcp {
		f = New(Config{Logger: logger(w.t), NetNS: w.node.FD(), ResetTCP: time.Nanosecond})
	}
	w.t.Cleanup(func() { _ = f.kernel.close() })
	return f
}

// apply is what Run does with a change, until there is no more to do but what the kernel keeps.
func (f *Flows) apply(ctx context.Context, old, new *plan.Plan) error {
	f.Changed(old, new, nil)
	for {
		next, err := f.round(ctx)
		if err != nil || next == 0 || len(f.kept) > 0 {
			return err
		}
		time.Sleep(next)
	}
}

// change is what the loop does: rules first, then flows.
func (w *world) change(f *Flows, old, new *plan.Plan) {
	w.t.Helper()
	w.rules(new)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.must(f.apply(ctx, old, new))
}
