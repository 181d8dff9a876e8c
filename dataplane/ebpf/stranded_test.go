package ebpf_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

// A UDP socket that is connected to an endpoint which is gone is ended where that is the node's own,
// and counted where it is a pod's; the next one gets another endpoint. Those whose endpoint serves or
// drains, those that were connected to the endpoint itself, and TCP stay.
func TestStranded(t *testing.T) {
	t.Parallel()
	one := service{number: 1, endpoints: both(2)}
	other := service{number: 2, endpoints: both(3)}
	p := planOf(one, other)
	w := socketWorld(t, p)
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
		w.echo(pod(v6, 3))
	}
	var lost, pods, stay []net.Conn
	for _, v6 := range []bool{false, true} {
		lost = append(lost, w.speaks(dptest.Self, objects.UDP, one.vip(v6)), w.speaks(dptest.Self, objects.UDP, one.nodePort(v6)))
		pods = append(pods, w.speaks(dptest.PodA, objects.UDP, one.vip(v6)))
		for _, from := range here() {
			stay = append(stay,
				w.speaks(from, objects.UDP, other.vip(v6)), w.speaks(from, objects.UDP, pod(v6, 2)), w.speaks(from, objects.TCP, one.vip(v6)))
		}
	}
	lost = append(lost, w.mapped(one.vip(false)))
	stay = append(stay, w.mapped(other.vip(false)))
	w.watched()
	looked := func(when string, stranded int) {
		t.Helper()
		if err := w.target.Rescue(); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if n := w.target.Stranded(); n != stranded {
			t.Errorf("%s: %d are stranded, want %d", when, n, stranded)
		}
		for _, c := range append(stay, pods...) {
			if err := talk(c, []byte("x")); err != nil {
				t.Errorf("%s: %s, by %s to %s, is ended: %v", when, c.RemoteAddr().Network(), c.LocalAddr(), c.RemoteAddr(), err)
			}
		}
	}
	looked("while all endpoints serve", 0)
	leaving := planOf(service{number: 1, endpoints: both(3), leaving: both(2)}, other)
	apply(t, w.target, p, leaving)
	looked("while the endpoint drains", 0)
	for _, c := range lost {
		if err := talk(c, []byte("x")); err != nil {
			t.Errorf("while the endpoint drains: %v", err)
		}
	}
	gone := planOf(service{number: 1, endpoints: both(3)}, other)
	apply(t, w.target, leaving, gone)
	for _, c := range lost {
		ended(t, c)
	}
	looked("when the endpoint is gone", len(pods))
	for _, from := range here() {
		if err := talk(w.speaks(from, objects.UDP, one.vip(false)), []byte("x")); err != nil {
			t.Errorf("another socket of %s: %v", from, err)
		}
	}
	for _, c := range pods {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pods = nil
	looked("when the pods have closed theirs", 0)
	stay = stay[:0]
	last := w.speaks(dptest.Self, objects.UDP, other.vip(true))
	apply(t, w.target, gone, planOf())
	ended(t, last)
}

// Where the agent may enter pods' namespaces, theirs are ended as well; what else is in the folder is passed
// over.
func TestStrandedPods(t *testing.T) {
	t.Parallel()
	one, other := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(3)}
	p := planOf(one, other)
	spaces := t.TempDir()
	w := socketWorld(t, p, func(c *ebpf.Config) { c.PodSpaces = spaces })
	for name, of := range map[string]string{"pod-a": w.Place(dptest.PodA).Path(), "gone": filepath.Join(spaces, "nowhere")} {
		if err := os.Symlink(of, filepath.Join(spaces, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(spaces, "text"), []byte("no namespace"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
		w.echo(pod(v6, 3))
	}
	var lost, stay []net.Conn
	for _, v6 := range []bool{false, true} {
		lost = append(lost, w.speaks(dptest.PodA, objects.UDP, one.vip(v6)), w.speaks(dptest.Self, objects.UDP, one.vip(v6)))
		stay = append(stay, w.speaks(dptest.PodA, objects.UDP, other.vip(v6)), w.speaks(dptest.PodA, objects.UDP, pod(v6, 2)), w.speaks(dptest.PodB, objects.UDP, one.vip(v6)))
	}
	apply(t, w.target, p, planOf(service{number: 1, endpoints: both(3)}, other))
	if err := w.target.Rescue(); err != nil {
		t.Fatal(err)
	}
	for _, c := range lost {
		ended(t, c)
	}
	for _, c := range stay {
		if err := talk(c, []byte("x")); err != nil {
			t.Errorf("%s to %s is ended: %v", c.LocalAddr(), c.RemoteAddr(), err)
		}
	}
	if n := w.target.Stranded(); n != 2 {
		t.Errorf("%d are stranded, want those of the pod whose namespace is not in the folder", n)
	}
}

// ended waits until the kernel has ended a socket.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("%s: %v, want that the connection was aborted", c.LocalAddr(), err)
	}
}

// speaks is a socket that has had an answer.
func (w *world) speaks(from dptest.Source, proto objects.Protocol, to netip.AddrPort) net.Conn {
	w.t.Helper()
	c, err := w.dial(from, proto, 0, to)
	if err == nil {
		err = talk(c, []byte("x"))
	}
	if err != nil {
		w.t.Fatalf("%s to %s %s: %v", from, proto, to, err)
	}
	return c
}

// mapped is an IPv6 socket of the node that is connected to an address of IPv4.
func (w *world) mapped(to netip.AddrPort) net.Conn {
	w.t.Helper()
	var c net.Conn
	err := w.As(dptest.Self, func() error {
		fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "mapped")
		defer f.Close()
		if err := syscall.Connect(fd, &syscall.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}); err != nil {
			return err
		}
		c, err = net.FileConn(f)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if err := talk(c, []byte("x")); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// What a socket has sent without connect is remembered for two minutes after the last datagram of
// either side, and what is connected until the socket is closed.
func TestSweepsSockets(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := socketWorld(t, planOf(s))
	w.echo(pod(false, 2))
	connected := w.speaks(dptest.PodA, objects.UDP, s.vip(false))
	var c *net.UDPConn
	err := w.As(dptest.PodA, func() (err error) {
		c, err = net.ListenUDP("udp4", nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var sent used
	remember := func(when string, udp int) {
		t.Helper()
		if a, b := w.remembered("plumb_sent"), w.remembered("plumb_udp"); sent.wrong(a, 2*time.Minute) || b != udp {
			t.Errorf("%s, %s old: %d are remembered of what was sent and %d of what is connected, want %d of these", when, sent.aged, a, b, udp)
		}
	}
	later := func(d time.Duration) {
		t.Helper()
		w.age(d)
		sent.aged += d
	}
	use := func() {
		t.Helper()
		sent = used{at: time.Now()}
		if err := exchange(c, s.vip(false)); err != nil {
			t.Fatal(err)
		}
	}
	use()
	remember("at once", 1)
	later(118 * time.Second)
	remember("shortly before its time", 1)
	sent = used{at: time.Now()}
	if _, err := c.WriteToUDPAddrPort([]byte("x"), s.vip(false)); err != nil {
		t.Fatal(err)
	}
	later(118 * time.Second)
	remember("after another datagram", 1)
	later(3 * time.Second)
	remember("after its time", 1)
	if err := connected.Close(); err != nil {
		t.Fatal(err)
	}
	use()
	remember("when the other socket is closed", 0)
}

// An answer keeps the memory of what was sent, without another question.
func TestAnswersKeepWhatWasSent(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := socketWorld(t, planOf(s))
	var server, c *net.UDPConn
	w.in(w.Home(pod(false, 2).Addr()), func() (err error) {
		server, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(pod(false, 2)))
		return err
	})
	defer server.Close()
	err := w.As(dptest.PodA, func() (err error) {
		c, err = net.ListenUDP("udp4", nil)
		return errors.Join(err, c.SetDeadline(time.Now().Add(soon)))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := server.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteToUDPAddrPort([]byte("x"), s.vip(false)); err != nil {
		t.Fatal(err)
	}
	_, client, err := server.ReadFromUDPAddrPort(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.age(100 * time.Second)
		if _, err := server.WriteToUDPAddrPort([]byte("x"), client); err != nil {
			t.Fatal(err)
		}
		if _, from, err := c.ReadFromUDPAddrPort(make([]byte, 8)); err != nil || from != s.vip(false) {
			t.Errorf("an answer comes from %s, %v", from, err)
		}
		if n := w.remembered("plumb_sent"); n != 1 {
			t.Fatalf("%d are remembered", n)
		}
	}
}
