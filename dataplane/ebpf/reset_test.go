package ebpf_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// TCP sockets that were led to an endpoint which is gone are ended, the node's and those of pods whose
// namespace is known, and one that has said all and waits for the answer. What was connected to the endpoint itself, and
// what has another one, stays.
func TestResetTCP(t *testing.T) {
	t.Parallel()
	one, other, silent := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(3)}, service{number: 4, endpoints: both(4)}
	p, spaces := planOf(one, other, silent), filepath.Join(t.TempDir(), "later")
	w := socketWorld(t, p, func(c *ebpf.Config) { c.PodSpaces, c.ResetTCP = spaces, 200*time.Millisecond })
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
		w.echo(pod(v6, 3))
	}
	var lost, pods, stay []net.Conn
	for _, v6 := range []bool{false, true} {
		pods = append(pods, w.speaks(dptest.PodA, objects.TCP, one.vip(v6)))
		lost = append(lost, w.speaks(dptest.Self, objects.TCP, one.vip(v6)), w.speaks(dptest.Self, objects.TCP, one.nodePort(v6)))
		stay = append(stay, w.speaks(dptest.PodA, objects.TCP, other.vip(v6)), w.speaks(dptest.PodA, objects.TCP, pod(v6, 2)), w.speaks(dptest.Self, objects.TCP, pod(v6, 2)),
			w.speaks(dptest.PodB, objects.TCP, one.vip(v6)))
	}
	lost = append(lost, w.halfClosed(silent.vip(false), pod(false, 4)))
	w.watched()
	gone := planOf(service{number: 1, endpoints: both(3)}, other)
	apply(t, w.target, p, gone)
	for _, c := range lost {
		ended(t, c)
	}
	// What could not be done is done when it can be: pods' namespaces were not there to be seen.
	if err := errors.Join(os.Mkdir(spaces, 0o755), os.Symlink(w.Place(dptest.PodA).Path(), filepath.Join(spaces, "pod-a")), unix.Mkfifo(filepath.Join(spaces, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	apply(t, w.target, gone, planOf(service{number: 1, endpoints: both(3)}, other, service{number: 3}))
	for _, c := range pods {
		ended(t, c)
	}
	for _, c := range stay {
		if err := talk(c, []byte("x")); err != nil {
			t.Errorf("%s to %s is ended: %v", c.LocalAddr(), c.RemoteAddr(), err)
		}
	}
}

// halfClosed is a connection of the node to a server that never answers; the client has said all.
func (w *world) halfClosed(to, server netip.AddrPort) net.Conn {
	w.t.Helper()
	heard := make(chan error, 1)
	w.in(w.Home(server.Addr()), func() error {
		ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(server))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = ln.Close() })
		go func() {
			c, err := ln.Accept()
			if err == nil {
				w.t.Cleanup(func() { _ = c.Close() })
				_, err = io.Copy(io.Discard, c) // until the client has said all
			}
			heard <- err
		}()
		return nil
	})
	c, err := w.dial(dptest.Self, objects.TCP, 0, to)
	if err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := <-heard; err != nil {
		w.t.Fatal(err)
	}
	return c
}

// An endpoint is gone when no TCP frontend names it in any state, and only for so long; it is told once.
func TestNamed(t *testing.T) {
	at := netip.MustParseAddrPort("10.244.2.2:8080")
	e := plan.Endpoint{Addr: at.Addr(), Port: at.Port()}
	with := func(number int, set func(*plan.Frontend)) *plan.Plan {
		p := planOf(service{number: number})
		for _, s := range p.Services {
			for i := range s.Frontends {
				if s.Frontends[i].Key.Protocol == objects.TCP {
					set(&s.Frontends[i])
				}
			}
		}
		return p
	}
	serves := func(f *plan.Frontend) { f.Outside.Endpoints = []plan.Endpoint{e} }
	states := map[string]func(*plan.Frontend){
		"serves": serves, "drains": func(f *plan.Frontend) { f.Draining = []plan.Endpoint{e} }, "is unready": func(f *plan.Frontend) { f.Unready = []plan.Endpoint{e} },
		"serves inside": func(f *plan.Frontend) { f.Inside = &plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{e}} },
	}
	none := with(1, func(*plan.Frontend) {})
	start := time.Now()
	const grace = 5 * time.Second
	for name, state := range states {
		n := ebpf.NewNamed()
		n.Follow(nil, none, start) // a start: nothing was there that could be gone
		if due, _ := n.Due(start.Add(grace+time.Minute), grace); len(due) != 0 {
			t.Errorf("%s: gone at a start: %v", name, due)
		}
		n.Follow(none, with(1, serves), start)
		n.Follow(with(1, serves), with(1, state), start)
		n.Follow(planOf(), with(2, state), start) // another Service has it too
		n.Follow(with(1, state), none, start)
		if due, _ := n.Due(start.Add(grace+time.Minute), grace); len(due) != 0 {
			t.Errorf("%s of another Service: gone: %v", name, due)
		}
		n.Follow(with(2, state), planOf(), start)
		if due, next := n.Due(start.Add(4*time.Second), grace); len(due) != 0 || next != time.Second {
			t.Errorf("%s: before its time %v, the next in %v", name, due, next)
		}
		n.Follow(none, with(1, state), start) // it is back
		if due, next := n.Due(start.Add(grace+time.Minute), grace); len(due) != 0 || next != 0 {
			t.Errorf("%s: back, and gone: %v, %v", name, due, next)
		}
		n.Follow(nil, none, start) // after a failure, with all there is
		if due, _ := n.Due(start.Add(grace), grace); !due[at] || len(due) != 1 {
			t.Errorf("%s: at its time %v", name, due)
		}
		if due, _ := n.Due(start.Add(grace+time.Minute), grace); len(due) != 0 {
			t.Errorf("%s: told twice: %v", name, due)
		}
	}
}
