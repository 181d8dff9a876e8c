//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// on runs f in a place, on one processor. The thread is thrown away by Do.
func (n *Net) on(from Source, cpu int, f func() error) error {
	return n.As(from, func() error {
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to processor %d: %w", cpu, err)
		}
		return f()
	})
}

// anyCPU is one of those that this process may use.
func anyCPU() (int, error) {
	usable, err := allCPUs()
	if err != nil {
		return 0, err
	}
	return usable[rand.IntN(len(usable))], nil
}

// allCPUs are those that this process may use.
func allCPUs() (usable []int, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("read processors: %w", err)
	}
	for i := range 64 * len(all) {
		if all.IsSet(i) {
			usable = append(usable, i)
		}
	}
	return usable, nil
}

// reachedServer is the action of an answer.
const reachedServer = plan.Forward

// answer is what came of one connection.
type answer struct {
	action plan.Action // Forward for any server's answer
	server netip.AddrPort
	client netip.Addr // as the server saw it
	kernel string     // what it says of a packet that counts as dropped
	// soft: it was refused, and the socket waits for the answer to another SYN: what an ICMP
	// error says while connect holds the socket is kept as a soft error (tcp_v6_err in
	// net/ipv6/tcp_ipv6.c). Whether connect does is chance, where the answer takes another processor.
	soft bool
}

// attempts calls f with a function that makes one, for each connection it wants from a place.
func (n *Net) attempts(ctx context.Context, r Row, f func(attempt func() (answer, error)) error) error {
	cpu, err := anyCPU()
	if err != nil {
		return err
	}
	return n.on(r.From, cpu, func() error {
		return f(func() (answer, error) { return n.attempt(ctx, cpu, r.From, r.Proto, r.To) })
	})
}

// attempt makes one connection. It runs inside the namespace of from.
func (n *Net) attempt(ctx context.Context, cpu int, from Source, p objects.Protocol, to netip.AddrPort) (answer, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f := &flight{proto: p, starve: n.starve}
	var seen string // written before end, read after it, as is soft
	var soft bool
	doubt := time.AfterFunc(patience, func() {
		err := n.judgeSilence(ctx, cpu, from, f, to.Addr())
		seen, soft = f.String(), errors.Is(err, errSilent) && f.refusedSoftly()
		end(err)
	})
	defer doubt.Stop()
	a, err := n.exchange(ctx, from, f, to)
	// What the exchange found out itself counts, whatever was judged meanwhile.
	if why := context.Cause(ctx); why != nil && (errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = why
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{action: plan.Reject}, nil
	case errors.Is(err, errSilent):
		return answer{action: plan.Drop, kernel: seen, soft: soft}, nil
	}
	return a, err
}

// exchange sends one packet and awaits what comes of it.
func (n *Net) exchange(ctx context.Context, from Source, f *flight, to netip.AddrPort) (answer, error) {
	port := n.port()
	f.pause()
	conn, err := dial(ctx, from, port, f, to)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return readAll(tcp)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if ip, ok := conn.(*net.IPConn); ok {
		return n.sctp(f, ip, port, to)
	}
	// A packet that is dropped or rejected on its way out of the node itself
	// is not permitted; which of the two it was, reading tells.
	if _, err := conn.Write([]byte("who")); err != nil && !errors.Is(err, syscall.EPERM) {
		return answer{}, err
	}
	f.written.Store(true)
	f.pause()
	return read(conn)
}

// port is a client's. None comes again before all others have: what conntrack and
// TCP remember of a closed connection would be in the way of a new one between the
// same ports. They are below those that the kernel gives to clients, and below
// node ports, and above those that a proxy on the node listens at (10249, 10256).
func (n *Net) port() uint16 { return uint16(11000 + n.ports.Add(1)%19000) }

// dial binds to the source's address, but on the node to none: there the route's
// is what programs use.
func dial(ctx context.Context, from Source, port uint16, f *flight, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Control: f.control}
	where := to.String()
	src := netip.AddrPortFrom(from.Addr(to.Addr()), port)
	if from == Self {
		src = netip.AddrPortFrom([...]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[family(to.Addr())], port)
	}
	switch f.proto {
	case objects.TCP:
		d.LocalAddr = net.TCPAddrFromAddrPort(src)
	case objects.UDP:
		d.LocalAddr = net.UDPAddrFromAddrPort(src)
	case objects.SCTP:
		where = to.Addr().String()
		d.LocalAddr = &net.IPAddr{IP: src.Addr().AsSlice()}
	}
	return d.DialContext(ctx, network(f.proto, to.Addr()), where)
}

// readAll reads the answer of a connection that the first SYN made.
func readAll(conn *net.TCPConn) (answer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return answer{}, err
	}
	var info *unix.TCPInfo
	var err2 error
	err = raw.Control(func(fd uintptr) { info, err2 = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err := errors.Join(err, err2); err != nil {
		return answer{}, fmt.Errorf("read state of connection: %w", err)
	}
	if info.Total_retrans > 0 {
		return answer{}, fmt.Errorf("the first SYN was lost, retransmission %d came through", info.Total_retrans)
	}
	// Closed by a reset, so that no end remembers the port: a later connection
	// from the same one would begin with a refusal and a second SYN.
	if err := errors.Join(conn.SetDeadline(time.Now().Add(broken)), conn.SetLinger(0)); err != nil {
		return answer{}, err
	}
	a, err := read(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("connected, then %v", err) // neither dropped nor rejected
	}
	return a, err
}

func read(conn net.Conn) (answer, error) {
	buf := make([]byte, 256)
	k, err := conn.Read(buf)
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(string(buf[:k]))
}
