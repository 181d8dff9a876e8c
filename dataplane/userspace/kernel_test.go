package userspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// The Services of these tests: web at 10.96.0.10:80/TCP and node port 30080 under
// external policy Local, dns at 10.96.0.53:53/UDP.
const services = `
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080, protocol: TCP}]}
---
kind: Service
metadata: {name: dns, namespace: default}
spec: {type: ClusterIP, clusterIP: 10.96.0.53, clusterIPs: [10.96.0.53], ports: [{port: 53, protocol: UDP}]}
`

// slice is an EndpointSlice of one of them; conditions as in YAML.
func slice(service string, port int, proto string, endpoints ...string) string {
	out := fmt.Sprintf("---\nkind: EndpointSlice\nmetadata: {name: %s-1, namespace: default, labels: {kubernetes.io/service-name: %s}}\naddressType: IPv4\nports: [{port: %d, protocol: %s}]\nendpoints:\n", service, service, port, proto)
	for _, e := range endpoints {
		out += "- " + e + "\n"
	}
	return out
}

const (
	readyA   = "{addresses: [10.244.1.2], nodeName: here, conditions: {ready: true}}"
	servingA = "{addresses: [10.244.1.2], nodeName: here, conditions: {ready: false, serving: true, terminating: true}}"
	readyB   = "{addresses: [10.244.1.6], nodeName: here, conditions: {ready: true}}"
)

func planOf(t testing.TB, yaml string) *plan.Plan {
	t.Helper()
	snap, err := objects.Decode([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	node := dptest.Node()
	snap.Node = &node
	return plan.Build(snap, plan.Options{
		Node: dptest.NodeName, Terminating: plan.Fallback, NoLocal: plan.Drop,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	})
}

func apply(t testing.TB, target *userspace.Target, old, new *plan.Plan) {
	t.Helper()
	if err := target.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
}

// world is a network with a proxy at work on its node.
type world struct {
	*dptest.Net
	target *userspace.Target
	plan   *plan.Plan
}

func newWorld(t testing.TB, cfg userspace.Config, yaml string) *world {
	t.Helper()
	w := &world{Net: dptest.NewNet(t)}
	cfg.Logger, cfg.NetNS = logger(t), w.FD()
	w.target = started(t, cfg)
	w.plan = planOf(t, yaml)
	apply(t, w.target, nil, w.plan)
	return w
}

// change goes to other objects by difference.
func (w *world) change(t testing.TB, yaml string) {
	t.Helper()
	next := planOf(t, yaml)
	apply(t, w.target, w.plan, next)
	w.plan = next
}

// listen serves each connection at an address with f, in the namespace of a place.
func (w *world) listen(t testing.TB, at dptest.Source, addr string, f func(*net.TCPConn)) {
	t.Helper()
	var ln net.Listener
	if err := w.Place(at).Do(func() (err error) { ln, err = net.Listen("tcp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
}

func (w *world) dial(from dptest.Source, to string) (*net.TCPConn, error) {
	var c net.Conn
	err := w.Place(from).Do(func() (err error) { c, err = net.DialTimeout("tcp", to, 30*time.Second); return err })
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), c.SetDeadline(time.Now().Add(2 * time.Minute))
}

func (w *world) mustDial(t testing.TB, from dptest.Source, to string) *net.TCPConn {
	t.Helper()
	c, err := w.dial(from, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(c *net.TCPConn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// ping is one exchange on a connection to echo.
func ping(c net.Conn, text string) error {
	if _, err := c.Write([]byte(text)); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != text {
		return fmt.Errorf("got %q back for %q", buf, text)
	}
	return nil
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(2 * time.Millisecond); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

var web = services + slice("web", 8080, "TCP", readyA)

func TestHalfClose(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	w.listen(t, dptest.PodA, "10.244.1.2:8080", func(c *net.TCPConn) {
		defer c.Close()
		question, err := io.ReadAll(c)
		if err == nil {
			fmt.Fprintf(c, "%d bytes", len(question))
			err = c.CloseWrite()
		}
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
	if _, err := c.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "100000 bytes" {
		t.Errorf("answer after the client's end: %q, %v", got, err)
	}
}

func TestServerEndsFirst(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	heard := make(chan string, 1)
	w.listen(t, dptest.PodA, "10.244.1.2:8080", func(c *net.TCPConn) {
		defer c.Close()
		_ = c.CloseWrite()
		b, err := io.ReadAll(c)
		heard <- fmt.Sprint(string(b), err)
	})
	c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Fatalf("the server's end came as %q, %v", got, err)
	}
	if _, err := c.Write([]byte("late words")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := <-heard; got != "late words<nil>" {
		t.Errorf("the server heard %s", got)
	}
}

func TestResetGoesThrough(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	ends := make(chan error, 1)
	w.listen(t, dptest.PodA, "10.244.1.2:8080", func(c *net.TCPConn) {
		buf := make([]byte, 1)
		if _, err := c.Read(buf); err == nil && buf[0] == 'r' {
			_ = c.SetLinger(0)
			c.Close()
			return
		}
		_, err := c.Read(buf)
		ends <- err
		c.Close()
	})
	c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
	_, _ = c.Write([]byte("r"))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset by the server came as %v", err)
	}
	c = w.mustDial(t, dptest.PodB, "10.96.0.10:80")
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetLinger(0)
	c.Close()
	if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset by the client came as %v", err)
	}
	eventually(t, "both sessions end", func() bool { return w.target.Stats().Connections == 0 })
}

// The client's and the node port's view under external policy Local: an outsider
// keeps its address, both ways carry much data, and a thousand of them at once.
func TestThousandConnections(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	client := dptest.Outside.Addrs()[0]
	var wrong atomic.Int64
	w.listen(t, dptest.PodA, "10.244.1.2:8080", func(c *net.TCPConn) {
		if c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr() != client {
			wrong.Add(1)
		}
		echo(c)
	})
	const count = 1000
	var conns [count]*net.TCPConn
	var dialing sync.WaitGroup
	errs := make(chan error, count)
	for i := range count {
		dialing.Go(func() {
			c, err := w.dial(dptest.Outside, "192.0.2.1:30080")
			if err == nil {
				conns[i] = c
				err = ping(c, "hello")
			}
			errs <- err
		})
	}
	dialing.Wait()
	for range count {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if got := w.target.Stats(); got.Connections != count || got.Accepted != count {
		t.Errorf("open connections: %+v, want %d", got, count)
	}
	for i := range count {
		dialing.Go(func() { errs <- exchange(conns[i], 100_000) })
	}
	dialing.Wait()
	for range count {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d connections did not come from %s", n, count, client)
	}
	eventually(t, "all sessions end", func() bool { return w.target.Stats().Connections == 0 })
}

// exchange sends n bytes to echo, ends, and compares what comes back.
func exchange(c *net.TCPConn, n int) error {
	defer c.Close()
	out := bytes.Repeat([]byte("0123456789abcdef"), n/16)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Write(out)
		failed <- errors.Join(err, c.CloseWrite())
	}()
	in, err := io.ReadAll(c)
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	if !bytes.Equal(in, out) {
		return fmt.Errorf("%d bytes came back for %d, or others", len(in), len(out))
	}
	return nil
}

func TestEndpointThatRefuses(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web) // nobody listens
	c, err := w.dial(dptest.PodB, "10.96.0.10:80")
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the client saw %v", err)
	}
	eventually(t, "counted", func() bool { s := w.target.Stats(); return s.Unreachable == 1 && s.Connections == 0 })
}

// A connection outlives whatever happens to its Service, and conntrack's memory.
func TestEstablishedStay(t *testing.T) {
	for _, from := range []dptest.Source{dptest.PodB, dptest.Self} {
		t.Run(string(from), func(t *testing.T) {
			w := newWorld(t, userspace.Config{}, web)
			// The kernel's short cut hides that a packet would not be routed here.
			err := w.Node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_early_demux", []byte("0"), 0o644) })
			if err != nil {
				t.Fatal(err)
			}
			w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
			w.listen(t, dptest.PodB, "10.244.1.6:8080", echo)
			c := w.mustDial(t, from, "10.96.0.10:80")
			check := func(when string) {
				t.Helper()
				if err := ping(c, when); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
			}
			check("at first")
			w.change(t, services+slice("web", 8080, "TCP", readyB))
			check("another endpoint")
			w.change(t, services)
			check("no endpoint: refused")
			apply(t, started(t, userspace.Config{Logger: logger(t), NetNS: w.FD()}), nil, w.plan)
			check("a second process took over")
			w.change(t, "kind: Service\nmetadata: {name: other, namespace: default}\nspec: {clusterIP: None, ports: [{port: 1}]}\n")
			check("no Service")
			if from != dptest.Self { // from the node itself, see doc.go
				if err := w.Forget(); err != nil {
					t.Fatal(err)
				}
				check("conntrack flushed")
			}
			if _, err := w.dial(from, "10.96.0.10:80"); err == nil {
				t.Error("a new connection came through to a Service that is gone")
			}
		})
	}
}

// While the rules of others are taken away new connections and flows wait, and what is open
// goes on.
func TestHeld(t *testing.T) {
	for _, from := range []dptest.Source{dptest.PodB, dptest.Self} {
		t.Run(string(from), func(t *testing.T) {
			var take func()
			w := newWorld(t, userspace.Config{Others: func() func() { return take }}, web+slice("dns", 5353, "UDP", readyA))
			w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
			w.answer(t, dptest.PodA, "10.244.1.2:5353")
			open, flow, late := w.mustDial(t, from, "10.96.0.10:80"), w.client(t, from), w.client(t, from)
			check := func(when string) {
				t.Helper()
				_, _, failed := ask(flow, when)
				if err := errors.Join(ping(open, when), failed); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
			}
			check("before")
			dialled := make(chan error, 1)
			take = func() {
				check("held")
				before := w.target.Stats().Begun
				go func() {
					c, err := w.dial(from, "10.96.0.10:80")
					if err == nil {
						c.Close()
					}
					dialled <- err
				}()
				if _, err := late.WriteTo([]byte("x"), dnsAt); err != nil && !errors.Is(err, syscall.EPERM) {
					t.Error(err)
				}
				select {
				case err := <-dialled:
					t.Errorf("a new connection did not wait: %v", err)
				case <-time.After(500 * time.Millisecond):
				}
				if n := w.target.Stats().Begun; n != before {
					t.Errorf("%d flows began", n-before)
				}
				check("still held")
			}
			apply(t, w.target, nil, w.plan)
			check("after")
			if err := <-dialled; err != nil {
				t.Errorf("the connection that waited: %v", err)
			}
			if _, _, err := ask(late, "again"); err != nil {
				t.Errorf("the flow that waited: %v", err)
			}
		})
	}
}

// An endpoint that is a frontend itself is not followed: what the proxy sends
// never comes back to it.
func TestNoLoop(t *testing.T) {
	w := newWorld(t, userspace.Config{}, services)
	p := planOf(t, services+slice("web", 80, "TCP", "{addresses: [10.96.0.10], nodeName: here, conditions: {ready: true}}"))
	for name, s := range p.Services {
		for i, f := range s.Frontends {
			if f.Key.Protocol == objects.TCP {
				f.Outside = plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: f.Group.Addr, Port: 80}}}
				p.Services[name].Frontends[i] = f
			}
		}
	}
	apply(t, w.target, w.plan, p)
	if c, err := w.dial(dptest.PodB, "10.96.0.10:80"); err == nil {
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	}
	eventually(t, "the connection ends", func() bool { return w.target.Stats().Connections == 0 })
	if got := w.target.Stats(); got.Accepted != 1 {
		t.Errorf("one connection was accepted %d times", got.Accepted)
	}
}

// With strict reverse path filtering, as many distributions have it.
func TestStrictReversePath(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	if err := w.Node.Do(func() error { return setAll("rp_filter", "1") }); err != nil {
		t.Fatal(err)
	}
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	for from, to := range map[dptest.Source]string{dptest.PodB: "10.96.0.10:80", dptest.Self: "10.96.0.10:80", dptest.Outside: "192.0.2.1:30080"} {
		if err := ping(w.mustDial(t, from, to), "hello"); err != nil {
			t.Errorf("from %s: %v", from, err)
		}
	}
}

// Nothing is written to the kernel when only endpoints change, however many
// Services there are; a Service that comes or goes is one write.
func TestWrites(t *testing.T) {
	var asked atomic.Int64 // before and after each write
	w := newWorld(t, userspace.Config{Fault: func() error { asked.Add(1); return nil }}, web)
	steps := []struct {
		name, yaml string
		want       int64
	}{
		{"endpoint added", services + slice("web", 8080, "TCP", readyA, readyB), 0},
		{"endpoint removed", services + slice("web", 8080, "TCP", readyB), 0},
		{"last endpoint removed", services, 1},
		{"first endpoint added", web, 1},
	}
	for _, s := range steps {
		before := asked.Load()
		w.change(t, s.yaml)
		if got := (asked.Load() - before) / 2; got != s.want {
			t.Errorf("%s: %d writes, want %d", s.name, got, s.want)
		}
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	ours := func() (n int) {
		err := w.Node.Do(func() error {
			rules, err := netlink.RuleList(netlink.FAMILY_ALL)
			if err != nil {
				return err
			}
			for _, r := range rules {
				if r.Table == 28780 {
					n++
				}
			}
			routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: 28780}, netlink.RT_FILTER_TABLE)
			n += len(routes)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := ours(); n != 4 {
		t.Errorf("%d rules and routes, want one each in both families", n)
	}
	for range 2 {
		if err := userspace.Clean(w.FD()); err != nil {
			t.Fatal(err)
		}
		if n := ours(); n != 0 {
			t.Errorf("%d rules and routes left", n)
		}
	}
	if got, err := userspace.Dump(w.FD()); err != nil || got != "" {
		t.Errorf("left in nftables: %s %v", got, err)
	}
}

func TestCloseReportsWhatItCuts(t *testing.T) {
	w := newWorld(t, userspace.Config{}, web)
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	var conns []*net.TCPConn
	for range 7 {
		c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
		if err := ping(c, "hello"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if err := w.target.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.target.Stats().CutConnections; got != 7 {
		t.Errorf("7 connections were cut, not %d", got)
	}
	for _, c := range conns {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the end of the proxy came as %v", err)
		}
	}
}

func TestCloseDrains(t *testing.T) {
	w := newWorld(t, userspace.Config{Drain: 20 * time.Second}, web)
	w.listen(t, dptest.PodA, "10.244.1.2:8080", echo)
	c := w.mustDial(t, dptest.PodB, "10.96.0.10:80")
	if err := ping(c, "hello"); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- w.target.Close() }()
	if err := ping(c, "while draining"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if got := w.target.Stats().CutConnections; got != 0 {
		t.Errorf("%d connections cut", got)
	}
}

// Tables that another version left with sets of other types are replaced, and a
// set that nobody here knows is left alone with the rest.
func TestIncompatibleTables(t *testing.T) {
	need.Program(t, "nft")
	for name, tc := range map[string]struct{ before, after string }{
		"other type":  {"set services-forward { type inet_service; elements = { 80 }; }", ""},
		"other chain": {"chain deliver { type nat hook prerouting priority -100; }", ""},
		"unknown set": {"set future { type inet_service; elements = { 80 }; }", "set future"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := netns.ForTest(t, "node")
			nft := func(arg ...string) string {
				var out []byte
				err := ns.Do(func() (err error) { out, err = exec.Command("nft", arg...).CombinedOutput(); return err })
				if err != nil {
					t.Fatalf("nft: %v: %s", err, out)
				}
				return string(out)
			}
			nft("table ip plumbline-userspace { " + tc.before + "; }")
			p := planOf(t, web)
			apply(t, started(t, userspace.Config{Logger: logger(t), NetNS: ns.FD()}), nil, p)
			if got, err := userspace.Dump(ns.FD()); err != nil || got != userspace.Render(p) {
				t.Errorf("got %s %v", got, err)
			}
			if got := nft("list", "ruleset"); !strings.Contains(got, tc.after) {
				t.Errorf("%s is gone", tc.after)
			}
		})
	}
}

// A host whose links have IPv6 switched off has IPv4 forwarded all the same.
func TestWithoutIPv6(t *testing.T) {
	need.Root(t)
	ns := netns.ForTest(t, "off6")
	if err := ns.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	target := started(t, userspace.Config{Logger: logger(t), NetNS: ns.FD()})
	if err := target.Apply(t.Context(), nil, &plan.Plan{}); err != nil {
		t.Errorf("apply: %v", err)
	}
}
