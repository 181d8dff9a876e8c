package conntrack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// connection is an established TCP connection, both ends in our hands.
type connection struct{ client, server net.Conn }

func (w *world) listen(ns *netns.NS, at string) net.Listener {
	w.t.Helper()
	var l net.Listener
	w.must(ns.Do(func() (err error) { l, err = net.Listen("tcp", at); return err }))
	w.t.Cleanup(func() { l.Close() })
	return l
}

// connect opens a connection and waits until the server has it, without keepalive.
func (w *world) connect(ns *netns.NS, l net.Listener, to netip.AddrPort) connection {
	w.t.Helper()
	var c connection
	w.must(ns.Do(func() (err error) {
		d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: -1}
		c.client, err = d.DialContext(w.t.Context(), "tcp", to.String())
		return err
	}))
	var err error
	c.server, err = l.Accept()
	w.must(err)
	w.t.Cleanup(func() { // without a FIN that would be sent again in the next case
		for _, end := range []net.Conn{c.client, c.server} {
			_ = end.(*net.TCPConn).SetLinger(0)
			end.Close()
		}
	})
	w.must(c.talk())
	return c
}

// talk sends a byte each way.
func (c connection) talk() error {
	for _, dir := range [][2]net.Conn{{c.client, c.server}, {c.server, c.client}} {
		if _, err := dir[0].Write([]byte("x")); err != nil {
			return err
		}
		_ = dir[1].SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.ReadFull(dir[1], make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

// hears waits for what an end hears that only reads, if anything is to come, and how long that takes.
func hears(c net.Conn, comes bool, since time.Time) (took time.Duration, err error) {
	wait := 2 * time.Second
	if comes {
		wait = 30 * time.Second
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	_, err = c.Read(make([]byte, 1))
	return time.Since(since), err
}

// An idle connection to an endpoint that is gone: both sides, which only read, get
// "connection reset", wherever the client is and whatever became of the Service.
func TestResetTCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	la := w.listen(w.a, ":80")
	for _, v6 := range []bool{false, true} {
		x := byFamily[v6]
		a, b := ap(x.a, 80), ap(x.b, 80)
		cluster := func(to ...netip.AddrPort) plan.Frontend {
			return front(plan.ClusterIP, objects.TCP, ap(x.vip, 80), to...)
		}
		port := func(to ...netip.AddrPort) plan.Frontend {
			return front(plan.NodePort, objects.TCP, ap(x.node, 30053), to...)
		}
		for _, from := range []*netns.NS{w.client, w.node, w.b} {
			for _, tc := range []struct {
				name  string
				new   *plan.Plan
				reset bool
			}{
				{"another endpoint", planOf(cluster(b), port(b)), true},
				{"no endpoint", planOf(cluster(), port()), true},
				{"Service gone", planOf(), true},
				{"endpoint drains", planOf(with(cluster(b), drains(a)), with(port(b), drains(a))), false},
				{"endpoint of another frontend", planOf(cluster(b), port(b), front(plan.ClusterIP, objects.TCP, ap(x.vip, 81), a)), false},
			} {
				for _, to := range []netip.AddrPort{ap(x.vip, 80), ap(x.node, 30053)} {
					t.Run(fmt.Sprintf("%s from %s to %s", tc.name, w.name(from), to), func(t *testing.T) {
						w.t = t
						w.forget()
						old := planOf(cluster(a), port(a))
						f := w.newFlows(true)
						w.change(f, nil, old)
						c := w.connect(from, la, to)
						direct := w.connect(w.node, la, a)
						w.change(f, old, tc.new)
						since := time.Now()
						if !tc.reset {
							if err := c.talk(); err != nil {
								t.Errorf("the connection broke: %v", err)
							}
						} else {
							for side, end := range map[string]net.Conn{"client": c.client, "server": c.server} {
								took, err := hears(end, true, since)
								if !errors.Is(err, syscall.ECONNRESET) {
									t.Errorf("the %s hears %v, want a reset", side, err)
								}
								t.Logf("%s: %v after %v", side, err, took)
							}
						}
						if err := direct.talk(); err != nil {
							t.Errorf("a connection to the pod itself broke: %v", err)
						}
						if got, want := f.Stats().Resets, map[bool]uint64{true: 1}[tc.reset]; got != want {
							t.Errorf("%d resets, want %d", got, want)
						}
					})
				}
			}
		}
	}
}

// The pod is gone with its link, as it is in a cluster: the client hears of it all
// the same. Without ResetTCP nothing is done.
func TestResetTCPPodGone(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		w := newWorld(t)
		la := w.listen(w.a, ":80")
		x := byFamily[false]
		old, new := planOf(front(plan.ClusterIP, objects.TCP, ap(x.vip, 80), ap(x.a, 80))), planOf(front(plan.ClusterIP, objects.TCP, ap(x.vip, 80)))
		f := w.newFlows(on)
		w.change(f, nil, old)
		c := w.connect(w.client, la, ap(x.vip, 80))
		w.must(w.node.Do(func() error {
			link, err := netlink.LinkByName("a")
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		}))
		w.change(f, old, new)
		_, err := hears(c.client, on, time.Now())
		if got := errors.Is(err, syscall.ECONNRESET); got != on {
			t.Errorf("ResetTCP %v: the client hears %v", on, err)
		}
		if s := f.Stats(); s.Silent != 0 || (s.Resets == 1) != on || !on && s.Dumps > 2 {
			t.Errorf("ResetTCP %v: %+v", on, s)
		}
	}
}

// A client whose SYN nobody answers is not bound to the endpoint that is gone: its
// next try goes to another.
func TestKnocksElsewhere(t *testing.T) {
	w := newWorld(t)
	lb := w.listen(w.b, ":80")
	x := byFamily[false]
	// Nobody has this address; the node's default route leads to pod b, which is
	// silent about it.
	old := planOf(front(plan.ClusterIP, objects.TCP, ap(x.vip, 80), netip.MustParseAddrPort("203.0.113.9:80")))
	new := planOf(front(plan.ClusterIP, objects.TCP, ap(x.vip, 80), ap(x.b, 80)))
	f := w.newFlows(true)
	w.change(f, nil, old)
	dialed := make(chan error, 1)
	go func() {
		dialed <- w.client.Do(func() error {
			c, err := net.DialTimeout("tcp", ap(x.vip, 80).String(), 10*time.Second)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}()
	for deadline := time.Now().Add(30 * time.Second); len(w.flows(objects.TCP)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no SYN on its way")
		}
	}
	w.change(f, old, new)
	c, err := lb.Accept()
	w.must(err)
	defer c.Close()
	w.must(<-dialed)
	if s := f.Stats(); s.Deleted != 1 || s.Resets != 0 {
		t.Errorf("%+v, want one deleted and none reset", s)
	}
}
