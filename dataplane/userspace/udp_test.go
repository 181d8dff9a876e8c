package userspace_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
)

func setAll(name, value string) error {
	for _, dir := range []string{"all", "default", "out", "pa", "pb", "rem", "world", "lo"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+dir+"/"+name, []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// answer answers each datagram with the server's name, the client's address and
// the datagram, until closed.
func (w *world) answer(t testing.TB, at dptest.Source, addr string) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	if err := w.Place(at).Do(func() (err error) { conn, err = net.ListenPacket("udp", addr); return err }); err != nil {
		t.Fatal(err)
	}
	// What many clients ask at once waits here: as the kernel gives it, one socket has room for 277 small
	// datagrams, with this for twice as many without any right.
	if err := conn.(*net.UDPConn).SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %s %s", at, from, buf[:n]), from)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return conn
}

// client is an unconnected socket: it sees answers from anywhere.
func (w *world) client(t testing.TB, at dptest.Source) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	err := w.Place(at).Do(func() (err error) { conn, err = net.ListenPacket("udp4", ":0"); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

var dnsAt = net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.96.0.53:53"))

// ask is one exchange; who is the server's name.
func ask(c net.PacketConn, text string) (who, client string, err error) {
	return askAt(c, dnsAt, text)
}

func askAt(c net.PacketConn, at net.Addr, text string) (who, client string, err error) {
	if _, err := c.WriteTo([]byte(text), at); err != nil {
		return "", "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", "", err
	}
	buf := make([]byte, 1<<16)
	n, from, err := c.ReadFrom(buf)
	if err != nil {
		return "", "", err
	}
	if from.String() != at.String() {
		return "", "", fmt.Errorf("the answer came from %s", from)
	}
	f := strings.SplitN(string(buf[:n]), " ", 3)
	if len(f) != 3 || f[2] != text {
		return "", "", fmt.Errorf("answer of %d bytes to %d", n, len(text))
	}
	return f[0], f[1], nil
}

func dns(endpoints ...string) string { return services + slice("dns", 5353, "UDP", endpoints...) }

func TestDatagramsComeBackFromTheService(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns(readyA))
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	c := w.client(t, dptest.PodB)
	for _, size := range []int{1, 1400, 8000, 60_000} {
		who, client, err := ask(c, strings.Repeat("x", size))
		if err != nil || who != "pod-a" || !strings.HasPrefix(client, "10.244.1.6:") {
			t.Errorf("%d bytes: by %q, who saw %q: %v", size, who, client, err)
		}
	}
	if got := w.target.Stats(); got.Begun != 1 || got.Flows != 1 {
		t.Errorf("one flow was %+v", got)
	}
}

// An idle flow is forgotten after its own time, answered or not, and no earlier: the other time is
// over at once, or never, so that nobody has to answer in time.
func TestFlowsAreForgotten(t *testing.T) {
	const lasts = time.Second
	for name, cfg := range map[string]userspace.Config{
		"unanswered": {UDPUnreplied: lasts, UDPReplied: time.Millisecond},
		"answered":   {UDPUnreplied: time.Hour, UDPReplied: lasts},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg, dns(readyA))
			if name == "answered" {
				w.answer(t, dptest.PodA, "10.244.1.2:5353")
			} else {
				err := w.Place(dptest.PodA).Do(func() error {
					silent, err := net.ListenPacket("udp", "10.244.1.2:5353")
					if err == nil {
						t.Cleanup(func() { silent.Close() })
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			c := w.client(t, dptest.PodB)
			begin := time.Now()
			if _, err := c.WriteTo([]byte("x"), dnsAt); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the flow begins", func() bool { return w.target.Stats().Begun == 1 })
			eventually(t, "the flow is forgotten", func() bool { return w.target.Stats().Flows == 0 })
			if took := time.Since(begin); took < lasts {
				t.Errorf("forgotten after %s", took)
			}
		})
	}
}

// A flow stays at its endpoint while that serves, and goes elsewhere when it does
// no more: as conntrack's entries do when stale ones are deleted.
func TestFlowsFollowThePlan(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns(readyA))
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	w.answer(t, dptest.PodB, "10.244.1.6:5353")
	c := w.client(t, dptest.Remote)
	expect := func(want, when string) {
		t.Helper()
		if who, _, err := ask(c, "x"); who != want {
			t.Fatalf("%s: served by %q, %v; want %s", when, who, err, want)
		}
	}
	expect("pod-a", "at first")
	w.change(t, dns(servingA, readyB))
	expect("pod-a", "terminating and serving")
	if n := w.target.Stats().Begun; n != 1 {
		t.Errorf("%d flows begun, want 1", n)
	}
	w.change(t, dns(readyB))
	expect("pod-b", "gone")
	w.change(t, services)
	if _, err := c.WriteTo([]byte("x"), dnsAt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no flow to nowhere", func() bool { return w.target.Stats().Flows == 0 })
	w.change(t, dns(readyA))
	expect("pod-a", "back")
}

// A flow ends with its way in, though its endpoint serves on by others: when the
// frontend that it came by is gone, when that keeps the client out, and when the
// address is none of the node's any more. The next datagram is judged anew.
func TestFlowsEndWithTheirWayIn(t *testing.T) {
	const (
		open   = `{type: LoadBalancer, clusterIP: 10.96.0.53, clusterIPs: [10.96.0.53], externalIPs: [203.0.113.20], ports: [{port: 53, nodePort: 53, protocol: UDP}]`
		vip    = "status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}\n"
		header = "kind: Service\nmetadata: {name: dns, namespace: default}\nspec: "
	)
	before := header + open + "}\n" + vip + slice("dns", 5353, "UDP", readyA)
	w := newWorld(t, userspace.Config{}, services)
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	without := func(text, instead string) *plan.Plan { return planOf(t, strings.Replace(before, text, instead, 1)) }
	elsewhere := planOf(t, before)
	elsewhere.Node.Addrs = nil
	for _, c := range []struct {
		what, at string
		after    *plan.Plan
		kept     int64 // the flow by the ClusterIP
	}{
		{"source ranges", "203.0.113.10:53", without(open, open+", loadBalancerSourceRanges: [198.51.100.0/24]"), 1},
		{"load balancer address", "203.0.113.10:53", without(vip, ""), 1},
		{"external IP, with a node port of its number", "203.0.113.20:53", without("externalIPs: [203.0.113.20], ", ""), 1},
		{"address of the node", "192.0.2.1:53", elsewhere, 1},
		{"Service", "203.0.113.10:53", planOf(t, services), 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.at))
			other, client := w.client(t, dptest.PodB), w.client(t, dptest.Outside)
			w.change(t, services) // and no flow is left
			w.change(t, before)
			if _, _, err := ask(other, "x"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := askAt(client, at, "let in"); err != nil {
				t.Fatal(err)
			}
			apply(t, w.target, w.plan, c.after)
			w.plan = c.after
			if n := w.target.Stats().Flows; n != c.kept {
				t.Errorf("%d flows are left, want %d", n, c.kept)
			}
			if _, err := client.WriteTo([]byte("kept out"), at); err != nil {
				t.Fatal(err)
			}
			if c.kept > 0 { // a flow that begins after it is answered after it was judged
				if _, _, err := ask(w.client(t, dptest.PodB), "x"); err != nil {
					t.Fatal(err)
				}
			}
			w.change(t, before)
			if _, _, err := askAt(client, at, "let in again"); err != nil {
				t.Error(err) // or the answer to the datagram before
			}
		})
	}
}

func TestRefusedFlowIsChosenAnew(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns(readyA))
	server := w.answer(t, dptest.PodA, "10.244.1.2:5353")
	c := w.client(t, dptest.PodB)
	if _, _, err := ask(c, "x"); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := c.WriteTo([]byte("x"), dnsAt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refused flow ends", func() bool { return w.target.Stats().Flows == 0 })
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	if _, _, err := ask(c, "y"); err != nil {
		t.Errorf("the next datagram: %v", err)
	}
}

// A flow whose source was kept leaves an entry in conntrack. A client that comes
// from that port itself, past the Service, gets its answers.
func TestClientTakesThePortOfAnEndedFlow(t *testing.T) {
	w := newWorld(t, userspace.Config{UDPReplied: 100 * time.Millisecond}, dns(readyA))
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	_, seen, err := ask(w.client(t, dptest.PodB), "x")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the flow ends", func() bool { return w.target.Stats().Flows == 0 })
	var direct net.Conn
	err = w.Place(dptest.PodB).Do(func() (err error) {
		direct, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(seen)), net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.244.1.2:5353")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if err := direct.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := direct.Read(buf)
	if want := "pod-a " + seen + " y"; err != nil || string(buf[:n]) != want {
		t.Errorf("from %s to the endpoint: %q, %v; want %q", seen, buf[:n], err, want)
	}
}

// A process of the node that holds the port of a Service on all addresses keeps
// the proxy from answering for it, which is said.
func TestPortHeldByTheNode(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns(readyA))
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	w.answer(t, dptest.Self, "0.0.0.0:53")
	c := w.client(t, dptest.PodB)
	if _, err := c.WriteTo([]byte("x"), dnsAt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the datagram is turned away", func() bool { return w.target.Stats().Turned == 1 })
}

// Many flows to one frontend begin at once, and every client gets its own answers.
func TestManyFlows(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns(readyA))
	w.answer(t, dptest.PodA, "10.244.1.2:5353")
	const count = 300
	errs := make(chan error, count)
	for i := range count {
		c := w.client(t, dptest.PodB)
		go func() {
			var err error
			for k := 0; k < 3 && err == nil; k++ {
				_, _, err = ask(c, fmt.Sprintf("question %d of client %d", k, i))
			}
			errs <- err
		}()
	}
	for range count {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := w.target.Stats(); got.Begun != count || got.Turned != 0 {
		t.Errorf("%d flows were %+v", count, got)
	}
}

// A flow whose Service has no endpoint left hears the refusal like any other.
func TestRefusalOfAFlow(t *testing.T) {
	for _, from := range []dptest.Source{dptest.PodB, dptest.Self} {
		t.Run(string(from), func(t *testing.T) {
			w := newWorld(t, userspace.Config{}, dns(readyA))
			w.answer(t, dptest.PodA, "10.244.1.2:5353")
			var c net.Conn
			if err := w.Place(from).Do(func() (err error) { c, err = net.Dial("udp", dnsAt.String()); return err }); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			say := func() error {
				if _, err := c.Write([]byte("x")); err != nil && !errors.Is(err, syscall.EPERM) {
					return err
				}
				_, err := c.Read(make([]byte, 100))
				return err
			}
			if err := say(); err != nil {
				t.Fatal(err)
			}
			w.change(t, services)
			if err := say(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("without endpoints: %v", err)
			}
			w.change(t, dns(readyA))
			if err := say(); err != nil {
				t.Errorf("with an endpoint again: %v", err)
			}
		})
	}
}

// An endpoint on the node's own network sees the client's address, and what it
// answers comes back although it seems to lead elsewhere.
func TestDatagramsToTheNodeItself(t *testing.T) {
	w := newWorld(t, userspace.Config{}, dns("{addresses: [192.0.2.1], nodeName: here, conditions: {ready: true}}"))
	w.answer(t, dptest.Self, "192.0.2.1:5353")
	for from, want := range map[dptest.Source]string{dptest.PodB: "10.244.1.6:", dptest.Outside: "192.0.2.100:"} {
		for range 20 {
			if _, client, err := ask(w.client(t, from), "hello"); err != nil || !strings.HasPrefix(client, want) {
				t.Errorf("from %s: the server saw %q: %v", from, client, err)
			}
		}
	}
}
