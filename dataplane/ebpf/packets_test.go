package ebpf_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
)

func families() map[string]bool { return map[string]bool{"ipv4": false, "ipv6": true} }

func protocols() []objects.Protocol { return []objects.Protocol{objects.TCP, objects.UDP} }

// pod is a place on the other node, of one family.
func pod(v6 bool, n int) netip.AddrPort {
	if v6 {
		return netip.MustParseAddrPort(fmt.Sprintf("[fd00:10:244:2::%d]:8080", n))
	}
	return netip.MustParseAddrPort(fmt.Sprintf("10.244.2.%d:8080", n))
}

func both(n int) []string {
	return []string{pod(false, n).Addr().String(), pod(true, n).Addr().String()}
}

// One port of one client speaks to two Services that have one endpoint: the answers of each come
// as its own.
func TestSamePortToTwoServices(t *testing.T) {
	t.Parallel()
	one, two := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(2)}
	w := newWorld(t, planOf(one, two), nil)
	for name, v6 := range families() {
		w.echo(pod(v6, 2))
		for _, proto := range protocols() {
			t.Run(name+"/"+proto.String(), func(t *testing.T) {
				taken := w.count("taken-port")
				var open []net.Conn
				for _, to := range []netip.AddrPort{one.vip(v6), two.vip(v6)} {
					c, err := w.dial(dptest.PodA, proto, 40000, to)
					if err != nil {
						t.Fatalf("connect to %s: %v", to, err)
					}
					open = append(open, c)
				}
				for range 3 {
					for i, c := range open {
						if err := talk(c, fmt.Appendf(nil, "%d of two", i)); err != nil {
							t.Errorf("connection %d: %v", i, err)
						}
					}
				}
				if got := w.count("taken-port") - taken; got != 1 {
					t.Errorf("%d connections got another port, want 1", got)
				}
			})
		}
	}
}

// As many masqueraded connections to an endpoint as there are ports, each by one of its own; the
// next one is dropped and counted, and served once there is room.
func TestPortsUsedUp(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), func(c *ebpf.Config) { c.SNATPorts = [2]uint16{61000, 61007} })
	w.echo(pod(false, 2))
	for i := range 8 {
		c, err := w.dial(dptest.Outside, objects.UDP, 0, s.nodePort(false))
		if err != nil {
			t.Fatal(err)
		}
		if err := talk(c, []byte("ports")); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	c, err := w.dial(dptest.Outside, objects.UDP, 0, s.nodePort(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("no port")); err != nil {
		t.Fatal(err)
	}
	await(t, "the drop is counted", func() bool { return w.count("no-snat-port") == 1 })
	if n, is, err := w.target.Count("no-snat-port"); n != 1 || !is || err != nil {
		t.Errorf("the Target counts %d, %t, %v", n, is, err)
	}
	if _, is, err := ebpf.New(w.cfg).Count("no-snat-port"); is || err != nil {
		t.Errorf("before the first Apply there is a count: %t, %v", is, err)
	}
	if err := ebpf.Forget(w.cfg.Pins); err != nil {
		t.Fatal(err)
	}
	if err := talk(c, []byte("room again")); err != nil {
		t.Errorf("with ports free again: %v", err)
	}
}

// Datagrams that come in fragments, both ways, masqueraded and not.
func TestFragments(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	for name, v6 := range families() {
		w.echo(pod(v6, 2))
		for from, to := range map[dptest.Source]netip.AddrPort{dptest.PodA: s.vip(v6), dptest.Outside: s.nodePort(v6)} {
			t.Run(name+"/"+string(from), func(t *testing.T) {
				c, err := w.dial(from, objects.UDP, 0, to)
				if err != nil {
					t.Fatal(err)
				}
				if err := talk(c, bytes.Repeat([]byte("fragment"), 1000)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if n := w.count("fragment"); n != 0 {
		t.Errorf("%d fragments were dropped", n)
	}
}

// A later fragment that comes before its first one is dropped, and counted.
func TestLaterFragmentFirst(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	vip, src := s.vip(false).Addr().As4(), dptest.PodA.Addrs()[0].As4()
	w.in(w.Place(dptest.PodA), func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		packet := append([]byte{0x45, 0, 0, 36, 1, 2, 0, 2, 64, unix.IPPROTO_UDP, 0, 0}, append(src[:], vip[:]...)...)
		return unix.Sendto(fd, append(packet, make([]byte, 16)...), 0, &unix.SockaddrInet4{Addr: vip})
	})
	await(t, "the fragment is counted", func() bool { return w.count("fragment") == 1 })
}

// What is refused at the endpoint, beyond a masquerade, is refused for the client; and what the
// client refuses of an answer is for the endpoint.
func TestRefusalsFromBeyond(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	for name, v6 := range families() {
		for from, to := range map[dptest.Source]netip.AddrPort{dptest.PodA: s.vip(v6), dptest.Outside: s.nodePort(v6)} {
			t.Run(name+"/"+string(from), func(t *testing.T) {
				c, err := w.dial(from, objects.UDP, 0, to)
				if err != nil {
					t.Fatal(err)
				}
				if err := talk(c, []byte("nobody listens")); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("where nobody listens: %v, want a refusal", err)
				}
				refusedByClient(t, w, c, pod(v6, 2))
			})
		}
	}
}

// refusedByClient lets an endpoint answer to a client that has closed its socket.
func refusedByClient(t *testing.T, w *world, client net.Conn, at netip.AddrPort) {
	t.Helper()
	var server *net.UDPConn
	w.in(w.Home(at.Addr()), func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	defer server.Close()
	if _, err := client.Write([]byte("who")); err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	_, from, err := server.ReadFromUDPAddrPort(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	connect := func(fd uintptr) { err = unix.Connect(int(fd), sockaddr(from)) }
	if e := raw.Control(connect); errors.Join(e, err) != nil {
		t.Fatal(e, err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.Send(int(fd), []byte("late"), 0) }); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 16)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("an answer to a closed port: %v, want a refusal", err)
	}
}

// What an ICMP error quotes is the packet that the client sent, to the last bit of its checksums.
func TestQuotedPacket(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	for _, place := range []dptest.Source{dptest.Self, dptest.Outside, dptest.Remote} {
		w.in(w.Place(place), withoutOffload)
	}
	var raw *net.IPConn
	w.in(w.Place(dptest.Outside), func() (err error) {
		raw, err = net.ListenIP("ip4:icmp", &net.IPAddr{IP: net.IPv4zero})
		return err
	})
	defer raw.Close()
	c, err := w.dial(dptest.Outside, objects.UDP, 40001, s.nodePort(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("nobody listens")); err != nil {
		t.Fatal(err)
	}
	if err := raw.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1500)
	n, from, err := raw.ReadFromIP(buf)
	if err != nil {
		t.Fatal(err)
	}
	if n < 8+28+14 {
		t.Fatalf("the error has %d bytes", n)
	}
	ip, udp := buf[8:28], buf[28:n]
	src, dst := netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	sport, dport := uint16(udp[0])<<8|uint16(udp[1]), uint16(udp[2])<<8|uint16(udp[3])
	if src != dptest.Outside.Addrs()[0] || dst != s.nodePort(false).Addr() || sport != 40001 || dport != s.nodePort(false).Port() {
		t.Errorf("it quotes a packet from %s:%d to %s:%d", src, sport, dst, dport)
	}
	pseudo := append(bytes.Clone(ip[12:20]), 0, unix.IPPROTO_UDP, udp[4], udp[5])
	for what, bytes := range map[string][]byte{"error": buf[:n], "quoted IP header": ip, "quoted datagram": append(pseudo, udp...)} {
		if sum := checksum(bytes); sum != 0xffff {
			t.Errorf("the checksum of the %s is wrong: %#x", what, sum)
		}
	}
	if at, _ := netip.AddrFromSlice(from.IP.To4()); at != s.nodePort(false).Addr() {
		t.Errorf("it comes from %s", at)
	}
}

// checksum is 0xffff of what has a right one.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i, v := range b {
		sum += uint32(v) << (8 * (1 - i%2))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if addr := a.Addr().Unmap(); addr.Is4() {
		return &unix.SockaddrInet4{Addr: addr.As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

// A path that is narrower than the client thinks, behind the node: the client learns it, of the
// address that it knows.
func TestPathMTU(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	w.in(w.Node, func() error {
		l, err := netlink.LinkByName("rem")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, 1300)
	})
	for name, v6 := range families() {
		for from, to := range map[dptest.Source]netip.AddrPort{dptest.PodA: s.vip(v6), dptest.Outside: s.nodePort(v6)} {
			t.Run(name+"/"+string(from), func(t *testing.T) {
				c, err := w.dial(from, objects.UDP, 0, to)
				if err != nil {
					t.Fatal(err)
				}
				level, discover, mtu, do := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, unix.IP_PMTUDISC_DO
				if v6 {
					level, discover, mtu, do = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, unix.IPV6_PMTUDISC_DO
				}
				option := func(get func(fd int) error) {
					raw, err := c.(*net.UDPConn).SyscallConn()
					if err == nil {
						err2 := raw.Control(func(fd uintptr) { err = get(int(fd)) })
						err = errors.Join(err, err2)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				option(func(fd int) error { return unix.SetsockoptInt(fd, level, discover, do) })
				if _, err := c.Write(make([]byte, 1400)); err != nil {
					t.Fatal(err)
				}
				got := 0
				await(t, "the client learns of the path", func() bool {
					option(func(fd int) (err error) { got, err = unix.GetsockoptInt(fd, level, mtu); return err })
					return got == 1300
				})
			})
		}
	}
}

// A UDP client stays with an endpoint that drains, and not with one that is gone.
func TestUDPMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), nil)
	at := func(endpoints, leaving []string) service {
		return service{number: 1, endpoints: endpoints, leaving: leaving}
	}
	for name, v6 := range families() {
		t.Run(name, func(t *testing.T) {
			first := listen(t, w, pod(v6, 2))
			second := listen(t, w, pod(v6, 3))
			old := planOf(at(both(2), nil))
			apply(t, w.target, nil, old)
			c, err := w.dial(dptest.PodA, objects.UDP, 0, at(nil, nil).vip(v6))
			if err != nil {
				t.Fatal(err)
			}
			arrives(t, c, first)
			drains := planOf(at(both(3), both(2)))
			apply(t, w.target, old, drains)
			arrives(t, c, first)
			gone := planOf(at(both(3), nil))
			apply(t, w.target, drains, gone)
			arrives(t, c, second)
		})
	}
}

func listen(t *testing.T, w *world, at netip.AddrPort) (c *net.UDPConn) {
	t.Helper()
	w.in(w.Home(at.Addr()), func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func arrives(t *testing.T, c net.Conn, at *net.UDPConn) {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := at.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := at.Read(make([]byte, 8)); err != nil {
		t.Fatalf("nothing arrives at %s: %v", at.LocalAddr(), err)
	}
}

// Without checksum offload every checksum that the programs write is looked at; with it and GSO
// what is sent is larger than a packet.
func TestChecksums(t *testing.T) {
	t.Parallel()
	s, none := service{number: 1, endpoints: both(2)}, service{number: 2}
	for _, offload := range []bool{true, false} {
		t.Run(fmt.Sprintf("offload=%t", offload), func(t *testing.T) {
			w := newWorld(t, planOf(s, none), nil)
			if !offload {
				for _, place := range []dptest.Source{dptest.Self, dptest.PodA, dptest.Outside, dptest.Remote} {
					w.in(w.Place(place), withoutOffload)
				}
			}
			for name, v6 := range families() {
				w.echo(pod(v6, 2))
				for from, to := range map[dptest.Source][2]netip.AddrPort{
					dptest.PodA: {s.vip(v6), none.vip(v6)}, dptest.Outside: {s.nodePort(v6), none.nodePort(v6)},
				} {
					for _, proto := range protocols() {
						t.Run(fmt.Sprintf("%s/%s/%s", name, from, proto), func(t *testing.T) { checksums(t, w, from, proto, to[0], to[1]) })
					}
				}
			}
		})
	}
}

func checksums(t *testing.T, w *world, from dptest.Source, proto objects.Protocol, served, refused netip.AddrPort) {
	c, err := w.dial(from, proto, 0, served)
	if err != nil {
		t.Fatal(err)
	}
	size := 1000
	if proto == objects.TCP {
		size = 1 << 16
	}
	for range 8 {
		if err := talk(c, bytes.Repeat([]byte{7}, size)); err != nil {
			t.Fatal(err)
		}
	}
	c, err = w.dial(from, proto, 0, refused)
	if err == nil {
		err = talk(c, []byte("odd"))
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without endpoints: %v, want a refusal", err)
	}
}

// withoutOffload lets the kernel compute and look at all checksums of the namespace's devices.
func withoutOffload() error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, l := range links {
		if l.Flags&net.FlagLoopback != 0 {
			continue
		}
		off := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_STXCSUM}
		var req struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			pad  [16]byte
		}
		copy(req.name[:], l.Name)
		req.data = unsafe.Pointer(&off)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
			return fmt.Errorf("switch checksum offload of %s off: %w", l.Name, os.NewSyscallError("ioctl", e))
		}
	}
	return nil
}

// Two nodes on one kernel have a Service of one name and address, each with an endpoint of its own that
// answers nobody on the other node. From the same ports of the same client, at devices and at
// sockets, each translates by its own maps; and what one of them alone has, the other leaves as it is.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(*testing.T, ...service) *world{
		"devices": func(t *testing.T, all ...service) *world { return newWorld(t, planOf(all...), nil) },
		"sockets": func(t *testing.T, all ...service) *world { return socketWorld(t, planOf(all...)) },
	} {
		t.Run(name, func(t *testing.T) {
			same, alone := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(2)}
			one, other := made(t, same, alone), made(t, service{number: 1, endpoints: both(3)})
			for _, v6 := range []bool{false, true} {
				one.echo(pod(v6, 2))
				other.echo(pod(v6, 3))
			}
			other.echo(alone.vip(false)) // what is not translated arrives at the world, by IPv4 alone
			for i, to := range []netip.AddrPort{same.vip(false), same.vip(true), same.nodePort(false), same.nodePort(true), alone.vip(false)} {
				for _, proto := range []objects.Protocol{objects.TCP, objects.UDP} {
					for _, w := range []*world{one, other} {
						c, err := w.dial(dptest.PodA, proto, uint16(40000+i), to)
						if err == nil {
							err = talk(c, []byte("x"))
						}
						if err != nil {
							t.Errorf("%s to %v: %v", proto, to, err)
						}
					}
				}
			}
			if a, b := one.count("new"), other.count("new"); a != 10 || b != 8 {
				t.Errorf("the nodes translated %d and %d connections, want 10 and 8", a, b)
			}
		})
	}
}
