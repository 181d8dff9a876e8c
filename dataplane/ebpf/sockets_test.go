package ebpf_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	cebpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// socketWorld is a world whose node has a cgroup, and a Target that translates there too.
func socketWorld(t testing.TB, p *plan.Plan, change ...func(*ebpf.Config)) *world {
	t.Helper()
	n := dptest.NewNet(t)
	n.Sockets(t)
	cfg := socketConfig(t, n.FD())
	for _, c := range change {
		c(&cfg)
	}
	w := &world{Net: n, t: t, cfg: cfg, target: started(t, cfg)}
	apply(t, w.target, nil, p)
	return w
}

// here are the places whose sockets are on the node.
func here() []dptest.Source { return []dptest.Source{dptest.Self, dptest.PodA} }

// asks sends a word to a Service from a socket of its own and returns what the socket says of its
// peer.
func (w *world) asks(from dptest.Source, network string, to netip.AddrPort) (netip.AddrPort, error) {
	var peer netip.AddrPort
	err := w.As(from, func() error {
		c, err := (&net.Dialer{Timeout: soon}).DialContext(w.t.Context(), network, to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		peer = netip.MustParseAddrPort(c.RemoteAddr().String())
		if err := talk(c, []byte("x")); err != nil {
			return err
		}
		raw, err := c.(syscall.Conn).SyscallConn()
		if err != nil {
			return err
		}
		return errors.Join(raw.Control(func(fd uintptr) { peer, err = peerOf(int(fd)) }), err)
	})
	return netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), err
}

func peerOf(fd int) (netip.AddrPort, error) {
	switch sa, err := syscall.Getpeername(fd); sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), err
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), err
	default:
		return netip.AddrPort{}, fmt.Errorf("getpeername: %w", err)
	}
}

// The node and its pods reach a Service by ClusterIP and node port, TCP and UDP, with sockets that say
// that they speak to it; no packet is translated.
func TestSockets(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := socketWorld(t, planOf(s))
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
	}
	for _, from := range here() {
		for _, to := range []netip.AddrPort{s.vip(false), s.vip(true), s.nodePort(false), s.nodePort(true)} {
			for _, network := range []string{"tcp", "udp"} {
				if peer, err := w.asks(from, network, to); err != nil || peer != to {
					t.Errorf("%s to %s by %s: the socket says %s, %v", from, to, network, peer, err)
				}
			}
		}
	}
	if n := w.count("new"); n != 16 {
		t.Errorf("%d connections began, want 16", n)
	}
	// A socket of a thread that is not in the node's cgroup is none of the node's.
	err := w.Place(dptest.Self).Do(func() error {
		c, err := net.DialTimeout("tcp", s.vip(false).String(), 100*time.Millisecond)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if late := net.Error(nil); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("outside of the cgroup: %v, want silence", err)
	}
}

// An endpoint at an address that Services are given, and that none has, is reached all the same.
func TestEndpointAmongServices(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: []string{"10.96.200.1"}}
	p := planOf(s)
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	w := socketWorld(t, p)
	w.echo(netip.MustParseAddrPort("10.96.200.1:8080"))
	for _, from := range here() {
		for _, network := range []string{"tcp", "udp"} {
			if _, err := w.asks(from, network, s.vip(false)); err != nil {
				t.Errorf("%s by %s: %v", from, network, err)
			}
		}
	}
}

// An IPv6 socket reaches a Service of IPv4 by its mapped address.
func TestMappedSocket(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := socketWorld(t, planOf(s))
	w.echo(pod(false, 2))
	to := s.vip(false)
	for _, typ := range []int{syscall.SOCK_STREAM, syscall.SOCK_DGRAM} {
		w.in6(typ, func(fd int) error {
			mapped := &syscall.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
			if typ == syscall.SOCK_DGRAM { // without connect: the answer's address is the Service's too
				if err := syscall.Sendto(fd, []byte("x"), 0, mapped); err != nil {
					return err
				}
				_, from, err := syscall.Recvfrom(fd, make([]byte, 8), 0)
				if from, ok := from.(*syscall.SockaddrInet6); err == nil && (!ok || from.Addr != mapped.Addr || from.Port != mapped.Port) {
					return fmt.Errorf("the answer is from %v", from)
				}
				if err != nil {
					return err
				}
			}
			if err := syscall.Connect(fd, mapped); err != nil {
				return err
			}
			if peer, err := peerOf(fd); err != nil || peer != netip.AddrPortFrom(netip.AddrFrom16(mapped.Addr), to.Port()) {
				return fmt.Errorf("the peer is %s, %w", peer, err)
			}
			return nil
		})
	}
}

// in6 runs f with an IPv6 socket of a pod, which waits for answers but not for ever.
func (w *world) in6(typ int, f func(fd int) error) {
	w.t.Helper()
	err := w.As(dptest.PodA, func() error {
		fd, err := syscall.Socket(syscall.AF_INET6, typ|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		wait := syscall.NsecToTimeval(int64(soon))
		if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait); err != nil {
			return err
		}
		return f(fd)
	})
	if err != nil {
		w.t.Error(err)
	}
}

// Without an endpoint the call is refused, of UDP too, and so is a port that a ClusterIP does not
// have; what a policy drops is silent.
func TestRefusedAtSocket(t *testing.T) {
	t.Parallel()
	s := service{number: 1}
	w := socketWorld(t, planOf(s))
	other := netip.AddrPortFrom(s.vip(false).Addr(), 81)
	for _, from := range here() {
		for _, to := range []netip.AddrPort{s.vip(false), s.vip(true), s.nodePort(false), other} {
			for _, network := range []string{"tcp", "udp"} {
				err := w.As(from, func() error {
					c, err := net.Dial(network, to.String())
					if err == nil {
						_ = c.Close()
					}
					return err
				})
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s to %s by %s: %v, want a refusal of the call", from, to, network, err)
				}
			}
			if err := w.send(from, to); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s sends to %s: %v, want a refusal of the call", from, to, err)
			}
		}
	}
	if rest, all := w.count("refused-rest"), w.count("refused"); rest != 6 || all != 18 {
		t.Errorf("refused: %d, and %d of ports that are not there; want 18 and 6", all, rest)
	}
}

// send sends a datagram without connect.
func (w *world) send(from dptest.Source, to netip.AddrPort) error {
	return w.As(from, func() error {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: from.Addr(to.Addr()).AsSlice()})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WriteToUDPAddrPort([]byte("x"), to)
		return err
	})
}

// One UDP socket speaks to two Services and to the endpoint of one of them, and is told of each
// answer whose it is. When an endpoint is gone, the next datagram goes to another one.
func TestUnconnectedSocket(t *testing.T) {
	t.Parallel()
	one, two := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(3)}
	w := socketWorld(t, planOf(one, two))
	for _, v6 := range []bool{false, true} {
		w.echo(pod(v6, 2))
		w.echo(pod(v6, 3))
	}
	for _, from := range here() {
		for _, v6 := range []bool{false, true} {
			err := w.As(from, func() error {
				c, err := net.ListenUDP("udp", &net.UDPAddr{IP: from.Addr(one.vip(v6).Addr()).AsSlice()})
				if err != nil {
					return err
				}
				defer c.Close()
				for _, to := range []netip.AddrPort{one.vip(v6), two.vip(v6), one.vip(v6), pod(v6, 2), one.vip(v6)} {
					if err := exchange(c, to); err != nil {
						return err
					}
				}
				apply(t, w.target, planOf(one, two), planOf(service{number: 1, endpoints: both(3)}, two))
				defer apply(t, w.target, planOf(service{number: 1, endpoints: both(3)}, two), planOf(one, two))
				return exchange(c, one.vip(v6))
			})
			if err != nil {
				t.Errorf("%s, IPv6 %t: %v", from, v6, err)
			}
		}
	}
}

// A socket that has let go of its peer, and one whose next connect is refused, speak to whom they did
// last: the first to whom each datagram goes, the other to its peer.
func TestPeerLetGo(t *testing.T) {
	t.Parallel()
	one, two, none := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(2)}, service{number: 3}
	w := socketWorld(t, planOf(one, two, none))
	w.echo(pod(false, 2))
	for _, from := range here() {
		err := w.As(from, func() error {
			c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: from.Addr(one.vip(false).Addr()).AsSlice()})
			if err != nil {
				return err
			}
			defer c.Close()
			raw, err := c.SyscallConn()
			if err != nil {
				return err
			}
			connect := func(to unix.Sockaddr) (err error) {
				failed := raw.Control(func(fd uintptr) { err = unix.Connect(int(fd), to) })
				return errors.Join(failed, err)
			}
			at := func(a netip.AddrPort) unix.Sockaddr {
				return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
			}
			if err := connect(at(one.vip(false))); err != nil {
				return err
			}
			if err := connect(at(none.vip(false))); !errors.Is(err, unix.ECONNREFUSED) {
				return fmt.Errorf("connect to a Service without endpoints: %v", err)
			}
			var peer netip.AddrPort
			if e := raw.Control(func(fd uintptr) { peer, err = peerOf(int(fd)) }); e != nil || err != nil || peer != one.vip(false) {
				return fmt.Errorf("after a refusal the peer is %s, want %s (%v)", peer, one.vip(false), errors.Join(e, err))
			}
			letGo := func(fd uintptr) {
				sa := unix.RawSockaddr{Family: unix.AF_UNSPEC}
				if _, _, errno := unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&sa)), unsafe.Sizeof(sa)); errno != 0 {
					err = errno
				}
			}
			if err := errors.Join(raw.Control(letGo), err); err != nil {
				return err
			}
			return errors.Join(exchange(c, pod(false, 2)), exchange(c, two.vip(false)), exchange(c, pod(false, 2)))
		})
		if err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}

// exchange sends a datagram and wants its answer from where it was sent to.
func exchange(c *net.UDPConn, to netip.AddrPort) error {
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		return err
	}
	if _, err := c.WriteToUDPAddrPort([]byte("x"), to); err != nil {
		return err
	}
	_, from, err := c.ReadFromUDPAddrPort(make([]byte, 8))
	if err == nil && netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != to {
		err = fmt.Errorf("sent to %s, the answer is from %s", to, from)
	}
	return err
}

// A pod stays with its endpoint by sockets too, and another one of the node has its own.
func TestStickySocket(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: slices.Concat(both(2), both(3), both(4), both(5)), sticky: true}
	w := socketWorld(t, planOf(s))
	rows := []dptest.Row{}
	for _, from := range []dptest.Source{dptest.PodA, dptest.PodB, dptest.Self} {
		row := dptest.Row{From: from, Proto: objects.TCP, To: s.vip(false), Line: string(from), Sticky: true}
		rows = append(rows, row.Resolve(planOf(s)))
	}
	if err := w.Check(t.Context(), planOf(s), rows, &dptest.Memory{}); err != nil {
		t.Error(err)
	}
}

// A successor takes over what is at the cgroup: of its own build as it is, of another it is replaced in
// place. One that is to have nothing there takes it away; and so does Clean.
func TestSocketsAreTakenOver(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	w := socketWorld(t, p)
	w.echo(pod(false, 2))
	before := w.atCgroup()
	if len(before) != 9 {
		t.Fatalf("%d programs are at the cgroup, want 9", len(before))
	}
	c, err := w.dial(dptest.PodA, objects.TCP, 0, s.vip(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.target.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.asks(dptest.Self, "tcp", s.vip(false)); err != nil {
		t.Errorf("without a process: %v", err)
	}
	next := started(t, w.cfg)
	apply(t, next, nil, p)
	if same := w.atCgroup(); !slices.Equal(same, before) {
		t.Errorf("the successor's programs are %v, those before were %v of the same build", same, before)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	w.forgetBuild()
	next = started(t, w.cfg)
	apply(t, next, nil, p)
	after := w.atCgroup()
	if len(after) != 9 || slices.ContainsFunc(after, func(id cebpf.ProgramID) bool { return slices.Contains(before, id) }) {
		t.Errorf("the successor's programs are %v, those before were %v", after, before)
	}
	if pins, err := filepath.Glob(filepath.Join(w.cfg.Pins, "*", "*_0123456789abcdef")); err != nil || len(pins) > 0 {
		t.Errorf("pins of another build stay: %q %v", pins, err)
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var peer netip.AddrPort
	if e := raw.Control(func(fd uintptr) { peer, err = peerOf(int(fd)) }); e != nil || err != nil || peer != s.vip(false) {
		t.Errorf("a socket of before says %s, %v", peer, errors.Join(e, err))
	}
	left, err := ebpf.Left(w.cfg.NetNS, w.cfg.Pins, false)
	if n := strings.Count(strings.Join(left, "\n"), "at the sockets of a cgroup"); err != nil || n != 9 {
		t.Errorf("%d are said to be left, want 9 (%v): %q", n, err, left)
	}
	w.cfg.Cgroup = ""
	apply(t, started(t, w.cfg), nil, p)
	if ids := w.atCgroup(); len(ids) > 0 {
		t.Errorf("without a cgroup %v are there still", ids)
	}
	w.cfg.Cgroup, _ = dptest.Cgroup(w.FD())
	apply(t, started(t, w.cfg), nil, p)
	if ids := w.atCgroup(); len(ids) != 9 {
		t.Errorf("again with one there are %v", ids)
	}
	if err := ebpf.Clean(w.cfg.NetNS, w.cfg.Pins, false); err != nil {
		t.Fatal(err)
	}
	if ids := w.atCgroup(); len(ids) > 0 {
		t.Errorf("after cleaning up %v are there still", ids)
	}
}

// forgetBuild makes the programs at sockets those of another build: it is in the names of their pins.
func (w *world) forgetBuild() {
	w.t.Helper()
	for _, name := range []string{"connect", "sendmsg", "recvmsg", "getpeer", "release"} {
		pins, err := filepath.Glob(filepath.Join(w.cfg.Pins, "*", "plumb_"+name+"*_*"))
		if err != nil || len(pins) == 0 {
			w.t.Fatalf("pins of %s: %q %v", name, pins, err)
		}
		for _, pin := range pins {
			if strings.HasSuffix(pin, "_link") {
				continue
			}
			other := pin[:strings.LastIndex(pin, "_")] + "_0123456789abcdef"
			if err := os.Rename(pin, other); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// Programs whose maps have been replaced are not taken over.
func TestSocketsOfOtherMaps(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := socketWorld(t, planOf(s))
	w.echo(pod(false, 2))
	if err := w.target.Close(); err != nil {
		t.Fatal(err)
	}
	w.cfg.Sizes.Endpoints *= 2
	apply(t, started(t, w.cfg), nil, planOf(s))
	if _, err := w.asks(dptest.Self, "tcp", s.vip(false)); err != nil {
		t.Error(err)
	}
	if n := w.count("new"); n != 1 {
		t.Errorf("the maps that are there have seen %d connections begin, want 1", n)
	}
}

// atCgroup are the programs at the node's cgroup.
func (w *world) atCgroup() (out []cebpf.ProgramID) {
	w.t.Helper()
	path, err := dptest.Cgroup(w.FD())
	if err != nil {
		w.t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer dir.Close()
	for _, at := range []cebpf.AttachType{
		cebpf.AttachCGroupInet4Connect, cebpf.AttachCGroupInet6Connect, cebpf.AttachCGroupUDP4Sendmsg, cebpf.AttachCGroupUDP6Sendmsg,
		cebpf.AttachCGroupUDP4Recvmsg, cebpf.AttachCGroupUDP6Recvmsg, cebpf.AttachCgroupInet4GetPeername, cebpf.AttachCgroupInet6GetPeername,
		cebpf.AttachCgroupInetSockRelease,
	} {
		all, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: at})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, p := range all.Programs {
			out = append(out, p.ID)
		}
	}
	return out
}

// What somebody takes away at the cgroup is named, and put back by the next look.
func TestSocketsAreMended(t *testing.T) {
	t.Parallel()
	p := planOf(service{number: 1, endpoints: both(2)})
	w := socketWorld(t, p)
	pins, err := filepath.Glob(filepath.Join(w.cfg.Pins, "*", "plumb_connect4_link"))
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins of the link: %q %v", pins, err)
	}
	gone := map[string]func() error{
		"unpinned": func() error { return os.Remove(pins[0]) },
		"detached": func() error {
			l, err := link.LoadPinnedLink(pins[0], nil)
			if err != nil {
				return err
			}
			return errors.Join(l.Detach(), l.Close())
		},
	}
	for how, take := range gone {
		if err := take(); err != nil {
			t.Fatal(err)
		}
		await(t, "a program of nine is "+how, func() bool { return len(w.atCgroup()) == 8 })
		missing, err := ebpf.Missing(w.cfg.NetNS, w.cfg.Pins)
		if err != nil || !slices.Equal(missing, []string{"program plumb_connect4 at sockets"}) {
			t.Errorf("%s: missing is %q, %v", how, missing, err)
		}
		damaged, err := w.target.Look()
		if err != nil || !damaged {
			t.Errorf("%s: the look says damaged %t, %v", how, damaged, err)
		}
		if ids := w.atCgroup(); len(ids) != 9 {
			t.Errorf("%s: %d programs are there again, want 9", how, len(ids))
		}
		holds(t, w.cfg, p)
		if damaged, err := w.target.Look(); err != nil || damaged {
			t.Errorf("%s: the next look says damaged %t, %v", how, damaged, err)
		}
	}
}
