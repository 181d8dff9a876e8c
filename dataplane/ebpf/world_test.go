package ebpf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// soon is for what must come, in an emulated machine as well.
const soon = 30 * time.Second

// service is a Service of type NodePort, with one port of TCP and of UDP, both to 8080.
type service struct {
	number    int // of its addresses 10.96.5.n and fd00:10:96::5:n, and of its node port, 30200+n
	endpoints []string
	leaving   []string // serve and terminate
	external  []string // externalIPs
	sticky    bool     // for three hours
}

func (s service) vip(v6 bool) netip.AddrPort {
	if v6 {
		return netip.MustParseAddrPort(fmt.Sprintf("[fd00:10:96::5:%d]:80", s.number))
	}
	return netip.MustParseAddrPort(fmt.Sprintf("10.96.5.%d:80", s.number))
}

func (s service) nodePort(v6 bool) netip.AddrPort {
	if v6 {
		return netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:2::1]:%d", 30200+s.number))
	}
	return netip.MustParseAddrPort(fmt.Sprintf("192.0.2.1:%d", 30200+s.number))
}

func (s service) changes() []objects.Change {
	name := objects.Name{Namespace: "default", Name: fmt.Sprint("web-", s.number)}
	svc := objects.Service{
		Name: name, Type: objects.NodePort, Internal: objects.Cluster, External: objects.Cluster,
		ClusterIPs: []netip.Addr{s.vip(false).Addr(), s.vip(true).Addr()},
	}
	if s.sticky {
		svc.Affinity = 3 * time.Hour
	}
	for _, a := range s.external {
		svc.ExternalIPs = append(svc.ExternalIPs, netip.MustParseAddr(a))
	}
	slice := objects.EndpointSlice{Name: name, Service: name}
	for _, p := range []objects.Protocol{objects.TCP, objects.UDP} {
		svc.Ports = append(svc.Ports, objects.ServicePort{Name: p.String(), Protocol: p, Port: 80, NodePort: uint16(30200 + s.number)})
		slice.Ports = append(slice.Ports, objects.SlicePort{Name: p.String(), Protocol: p, Port: 8080})
	}
	for _, a := range s.endpoints {
		slice.Endpoints = append(slice.Endpoints, objects.Endpoint{Addr: netip.MustParseAddr(a), Node: "there", Ready: true, Serving: true})
	}
	for _, a := range s.leaving {
		slice.Endpoints = append(slice.Endpoints, objects.Endpoint{Addr: netip.MustParseAddr(a), Node: "there", Serving: true, Terminating: true})
	}
	return []objects.Change{{Service: &svc}, {Slice: &slice}}
}

func planOf(services ...service) *plan.Plan {
	snap, node, local := &objects.Snapshot{}, dptest.Node(), dptest.Local()
	snap.Apply(objects.Change{Node: &node})
	snap.Apply(objects.Change{Local: &local})
	for _, s := range services {
		for _, c := range s.changes() {
			snap.Apply(c)
		}
	}
	return plan.Build(snap, plan.Options{
		Node: dptest.NodeName, Terminating: plan.Fallback, NoLocal: plan.Drop,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")},
	})
}

func apply(t testing.TB, target *ebpf.Target, old, new *plan.Plan) {
	t.Helper()
	if err := target.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
}

// world is a network with a Target at work in its node.
type world struct {
	*dptest.Net
	t      testing.TB
	cfg    ebpf.Config
	target *ebpf.Target
}

func newWorld(t testing.TB, p *plan.Plan, change func(*ebpf.Config)) *world {
	t.Helper()
	n := dptest.NewNet(t)
	cfg := config(t, n.FD())
	if change != nil {
		change(&cfg)
	}
	w := &world{Net: n, t: t, cfg: cfg, target: started(t, cfg)}
	apply(t, w.target, nil, p)
	return w
}

func (w *world) count(name string) uint64 {
	w.t.Helper()
	all, err := ebpf.CountedAt(w.cfg.Pins)
	if err != nil {
		w.t.Fatal(err)
	}
	n, ok := all.Counts[name]
	if !ok {
		w.t.Fatalf("no counter %s in %v", name, all.Counts)
	}
	return n
}

// in runs f in a namespace.
func (w *world) in(ns *netns.NS, f func() error) {
	w.t.Helper()
	if err := ns.Do(f); err != nil {
		w.t.Fatal(err)
	}
}

// echo answers at an address where that lives, datagrams and connections, with its own address
// and what it was sent.
func (w *world) echo(at netip.AddrPort) {
	w.t.Helper()
	w.in(w.Home(at.Addr()), func() error {
		ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
			}
		}()
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = udp.Close() })
		go answer(udp)
		return nil
	})
}

func answer(c *net.UDPConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteToUDPAddrPort(buf[:n], from)
		}
	}
}

// dial connects from a place, from a port if that is not 0.
func (w *world) dial(from dptest.Source, proto objects.Protocol, port uint16, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: soon, Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		}), err)
	}}
	local := netip.AddrPortFrom(from.Addr(to.Addr()), port)
	if d.LocalAddr = net.Addr(net.TCPAddrFromAddrPort(local)); proto == objects.UDP {
		d.LocalAddr = net.UDPAddrFromAddrPort(local)
	}
	var c net.Conn
	err := w.As(from, func() (err error) {
		c, err = d.DialContext(context.Background(), proto.String(), to.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c, nil
}

// talk sends something and reads it back.
func talk(c net.Conn, what []byte) error {
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		return err
	}
	if _, err := c.Write(what); err != nil {
		return err
	}
	back := make([]byte, len(what))
	if _, err := io.ReadFull(c, back); err != nil {
		return err
	}
	if string(back) != string(what) {
		return fmt.Errorf("sent %d bytes that begin %q, got others that begin %q", len(what), what[:1], back[:1])
	}
	return nil
}

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !so() {
		if time.Since(begin) > soon {
			t.Fatalf("%s: not within %s", what, soon)
		}
		<-again.C
	}
	return time.Since(begin)
}
