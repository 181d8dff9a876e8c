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

// How silence is told from slowness. A packet without an answer counts as
// dropped when as many control exchanges of the same protocol, from the same place
// through the node to world, all begun after it was sent, have been answered, and
// as much time has passed as slack times the slowest of them took, and silence at
// least. On a busy machine this takes longer; it is never guessed. Where the
// controls themselves get no answer there is no verdict but an error.
//
// A packet and its controls are sent from one processor: the kernel queues what
// goes over a veth by processor and in order, so that a control cannot overtake a
// packet that waits for its turn there. Answers of UDP and SCTP come from a
// goroutine, for which there is no such order, and get more time.
//
// An answer is one to the first packet: a connection that came to be only by a
// second SYN, a second after the first, is an error too.
const (
	patience = 10 * time.Millisecond // before there is doubt
	controls = 3
	slack    = 20
	broken   = 10 * time.Second // for what must come
)

func silence(p objects.Protocol) time.Duration {
	if p == objects.TCP {
		return 100 * time.Millisecond
	}
	return 250 * time.Millisecond
}

// on runs f in a place, on one processor. The thread is thrown away by Do.
func (n *Net) on(from Source, cpu int, f func() error) error {
	return n.places[from].Do(func() error {
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
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return 0, fmt.Errorf("read processors: %w", err)
	}
	var usable []int
	for i := range 64 * len(all) {
		if all.IsSet(i) {
			usable = append(usable, i)
		}
	}
	return usable[rand.IntN(len(usable))], nil
}

// controlPort is where world answers, at its own addresses.
const controlPort = 9

var errSilent = errors.New("silence")

// reachedServer is the action of an answer.
const reachedServer = plan.Forward

// answer is what came of one connection.
type answer struct {
	action plan.Action // Forward for any server's answer
	server netip.AddrPort
	client netip.Addr // as the server saw it
}

// knocks calls f with a knock for each connection it wants from a place.
func (n *Net) knocks(ctx context.Context, r Row, f func(knock func() (answer, error)) error) error {
	cpu, err := anyCPU()
	if err != nil {
		return err
	}
	return n.on(r.From, cpu, func() error {
		return f(func() (answer, error) { return n.knock(ctx, cpu, r.From, r.Proto, r.To) })
	})
}

// knock makes one connection. It runs inside the namespace of from.
func (n *Net) knock(ctx context.Context, cpu int, from Source, p objects.Protocol, to netip.AddrPort) (answer, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	doubt := time.AfterFunc(patience, func() { end(n.judgeSilence(ctx, cpu, from, p, to.Addr())) })
	defer doubt.Stop()
	a, err := n.exchange(ctx, from, p, to)
	if why := context.Cause(ctx); err != nil && why != nil {
		err = why
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer{action: plan.Reject}, nil
	case errors.Is(err, errSilent):
		return answer{action: plan.Drop}, nil
	}
	return a, err
}

// judgeSilence returns errSilent when an answer would have come by now.
func (n *Net) judgeSilence(ctx context.Context, cpu int, from Source, p objects.Protocol, like netip.Addr) error {
	begin := time.Now()
	var slowest time.Duration
	err := n.on(from, cpu, func() error {
		ctx, cancel := context.WithTimeout(ctx, broken)
		defer cancel()
		for range controls {
			start := time.Now()
			if _, err := n.exchange(ctx, from, p, n.control(like)); err != nil {
				return err
			}
			slowest = max(slowest, time.Since(start))
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil // the answer has come
	}
	if err != nil {
		return fmt.Errorf("no verdict: control connection from %s to %s: %v", from, n.control(like), err) // never taken for the row's own
	}
	select {
	case <-time.After(max(silence(p), slack*slowest) - time.Since(begin)):
	case <-ctx.Done():
	}
	return errSilent
}

// control is world's address of a family.
func (n *Net) control(like netip.Addr) netip.AddrPort {
	for _, l := range links() {
		if l.place == outerWorld {
			return netip.AddrPortFrom(prefix(l.there[family(like)]).Addr(), controlPort)
		}
	}
	return netip.AddrPort{}
}

// exchange sends one packet and awaits what comes of it.
func (n *Net) exchange(ctx context.Context, from Source, p objects.Protocol, to netip.AddrPort) (answer, error) {
	port := n.port()
	conn, err := dial(ctx, from, port, p, to)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return readAll(tcp)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if ip, ok := conn.(*net.IPConn); ok {
		return n.sctp(ctx, ip, port, to)
	}
	// A packet that is dropped or rejected on its way out of the node itself
	// is not permitted; which of the two it was, reading tells.
	if _, err := conn.Write([]byte("who")); err != nil && !errors.Is(err, syscall.EPERM) {
		return answer{}, err
	}
	return read(conn)
}

// port is a client's. None comes again before all others have: what conntrack and
// TCP remember of a closed connection would be in the way of a new one between the
// same ports. They are below those that the kernel gives to clients, and below
// node ports.
func (n *Net) port() uint16 { return uint16(10000 + n.ports.Add(1)%20000) }

// dial binds to the source's address, but on the node to none: there the route's
// is what programs use.
func dial(ctx context.Context, from Source, port uint16, p objects.Protocol, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	where := to.String()
	src := netip.AddrPortFrom(from.Addr(to.Addr()), port)
	if from == Self {
		src = netip.AddrPortFrom([...]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[family(to.Addr())], port)
	}
	switch p {
	case objects.TCP:
		d.LocalAddr = net.TCPAddrFromAddrPort(src)
	case objects.UDP:
		d.LocalAddr = net.UDPAddrFromAddrPort(src)
	case objects.SCTP:
		where = to.Addr().String()
		d.LocalAddr = &net.IPAddr{IP: src.Addr().AsSlice()}
	}
	return d.DialContext(ctx, network(p, to.Addr()), where)
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
