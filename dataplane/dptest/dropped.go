//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// How silence is told from slowness. A packet without an answer counts as
// dropped when the kernel says that it was sent, as many control exchanges of the
// same protocol, from the same place through the node to world, all begun after
// that, have been answered, no server has a packet left that it did not answer and
// no program of the node one that it did not read, as much time again has passed as
// slack times the slowest control took, and silence at least, every processor has been at
// work since, and the kernel still has no answer. On a busy machine this takes longer; it is never guessed. Where the controls themselves get no answer, or
// the kernel has one that nobody reads, there is no verdict but an error.
//
// What was sent and what was answered the kernel is asked, never the goroutine
// that waits: it may not have had a processor for all that time.
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
	tick     = time.Millisecond // between two questions about what must come
)

func silence(p objects.Protocol) time.Duration {
	if p == objects.TCP {
		return 100 * time.Millisecond
	}
	return 250 * time.Millisecond
}

var errSilent = errors.New("silence")

// phase is how far the kernel is with a packet.
type phase int

const (
	unsent phase = iota
	underway
	answered // or not the kernel's any more
)

// flight is one packet as the kernel sees it. Safe for concurrent use: one
// goroutine sends, another asks.
type flight struct {
	proto   objects.Protocol
	raw     atomic.Pointer[syscall.RawConn] // nil before there is a socket
	written atomic.Bool                     // not of TCP, whose state tells
	arrived atomic.Pointer[chan answer]     // of SCTP: what a server noted
	starve  func()                          // nil: nothing befalls the sender
}

// control is for net.Dialer.
func (f *flight) control(_, _ string, c syscall.RawConn) error {
	f.raw.Store(&c)
	return nil
}

func (f *flight) pause() {
	if f.starve != nil {
		f.starve()
	}
}

func (f *flight) phase() phase {
	raw := f.raw.Load()
	if raw == nil {
		return unsent
	}
	at := answered // what a closed socket had is for its owner to say
	_ = (*raw).Control(func(fd uintptr) {
		if f.proto == objects.TCP {
			at = phaseTCP(int(fd))
		} else {
			at = f.phasePacket(int(fd))
		}
	})
	return at
}

// phaseTCP reads the state. The kernel reads it under the socket's lock, which
// connect holds until the SYN is sent (tcp_get_info, inet_stream_connect).
func phaseTCP(fd int) phase {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	switch {
	case err != nil:
		return answered
	case info.State == unix.BPF_TCP_SYN_SENT:
		return underway
	case info.State == unix.BPF_TCP_CLOSE && !ready(fd, unix.POLLERR):
		return unsent // or refused, and that already read
	}
	return answered
}

// phasePacket: a raw socket is ready by packets of others too, but only until
// its owner has read them.
func (f *flight) phasePacket(fd int) phase {
	if !f.written.Load() {
		return unsent
	}
	if noted := f.arrived.Load(); noted != nil && len(*noted) > 0 || ready(fd, unix.POLLIN|unix.POLLERR) {
		return answered
	}
	return underway
}

// ready tells whether some of the events wait at a descriptor; it does not wait.
func ready(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	k, err := unix.Poll(fds, 0)
	for errors.Is(err, unix.EINTR) {
		k, err = unix.Poll(fds, 0)
	}
	return k > 0 && fds[0].Revents&events != 0
}

// refusedSoftly tells whether the socket of a connection that is silent has a soft error, that
// it was refused: SO_ERROR is that one where there is no other (sk_getsockopt in net/core/sock.c).
func (f *flight) refusedSoftly() (refused bool) {
	raw := f.raw.Load()
	if raw == nil || f.proto != objects.TCP {
		return false
	}
	_ = (*raw).Control(func(fd uintptr) {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		refused = err == nil && syscall.Errno(code) == syscall.ECONNREFUSED
	})
	return refused
}

// String is what the kernel says of it.
func (f *flight) String() string {
	text := "no socket"
	if raw := f.raw.Load(); raw != nil {
		text = "socket closed"
		_ = (*raw).Control(func(fd uintptr) {
			text = fmt.Sprintf("written %t, readable %t", f.written.Load(), ready(int(fd), unix.POLLIN))
			if f.proto != objects.TCP {
				return
			}
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				text = fmt.Sprintf("TCP state %d, %d retransmissions", info.State, info.Total_retrans)
			}
		})
	}
	return text
}

// await asks until something is so, for as long as what must come may take.
func await(ctx context.Context, what string, so func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, broken, fmt.Errorf("no verdict: %s after %v", what, broken))
	defer cancel()
	again := time.NewTicker(tick)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// judgeSilence returns errSilent when an answer would have come by now, and nil
// when ctx ended, because one came.
func (n *Net) judgeSilence(ctx context.Context, cpu int, from Source, f *flight, like netip.Addr) error {
	err := n.awaitSilence(ctx, cpu, from, f, like)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	return errSilent
}

func (n *Net) awaitSilence(ctx context.Context, cpu int, from Source, f *flight, like netip.Addr) error {
	if err := await(ctx, "the packet is not sent", func() bool { return f.phase() != unsent }); err != nil {
		return err
	}
	slowest, err := n.slowestControl(ctx, cpu, from, f.proto, like)
	if err != nil {
		return noVerdict(from, n.control(like), err)
	}
	for all := false; !all; { // who was late once may be late again
		if err := n.idle(ctx); err != nil {
			return err
		}
		wait := max(silence(f.proto), slack*slowest)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		if all, err = n.read(); err == nil && all {
			all, err = n.allRun(ctx, from, f.proto, like, wait)
		}
		if err != nil {
			return err
		}
	}
	return await(ctx, "the kernel has an answer that was not read", func() bool { return f.phase() == underway })
}

// allRun tells whether every processor has been at work of late: a dataplane's process may have had the packet in
// hand, which is in no queue then, where one stood still for as long as a wait. A control there does too.
func (n *Net) allRun(ctx context.Context, from Source, p objects.Protocol, like netip.Addr, wait time.Duration) (bool, error) {
	cpus, err := allCPUs()
	if err != nil {
		return false, err
	}
	for _, cpu := range cpus {
		slowest, err := n.slowestControl(ctx, cpu, from, p, like)
		if err != nil {
			return false, noVerdict(from, n.control(like), err)
		}
		if slowest > wait/4 {
			return false, nil
		}
	}
	return true, nil
}

// noVerdict is never taken for the row's own error, so nothing of it is wrapped.
func noVerdict(from Source, control netip.AddrPort, err error) error {
	return fmt.Errorf("no verdict: control connection from %s to %s: %v", from, control, err)
}

func (n *Net) slowestControl(ctx context.Context, cpu int, from Source, p objects.Protocol, like netip.Addr) (slowest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, broken)
	defer cancel()
	err = n.on(from, cpu, func() error {
		for range controls {
			start := time.Now()
			if _, err := n.exchange(ctx, from, &flight{proto: p}, n.control(like)); err != nil {
				return err
			}
			slowest = max(slowest, time.Since(start))
		}
		return nil
	})
	return slowest, err
}

// controlPort is where world answers, at its own addresses.
const controlPort = 9

// control is world's address of a family.
func (n *Net) control(like netip.Addr) netip.AddrPort {
	for _, l := range links() {
		if l.place == outerWorld {
			return netip.AddrPortFrom(prefix(l.there[family(like)]).Addr(), controlPort)
		}
	}
	return netip.AddrPort{}
}
