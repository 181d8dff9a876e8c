//go:build linux

package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is how long a connection may take: one whose SYN was lost (sent
	// again after 1 s) is to be seen as lost, not as late.
	patience = 900 * time.Millisecond
	// glance is how long one may take that only asks whether a Service answers yet.
	glance = 20 * time.Millisecond
)

// knock opens a connection from a source, reads who answered and closes it with
// a reset, so that no port waits. It must run in the client's namespace.
func knock(from, to netip.AddrPort, patience time.Duration) (reached netip.Addr, err error) {
	fd, err := dial(from, to, patience)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	return who(fd)
}

// dial leaves the connection open. Opening it, and each read later, may take so
// long.
func dial(from, to netip.AddrPort, patience time.Duration) (fd int, err error) {
	fd, err = socket(from, patience)
	if err != nil {
		return -1, err
	}
	if _, err = connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("from %s: %w", from.Addr(), err)
	}
	return fd, nil
}

// ownError is of the benchmark's own doing, and says nothing of a dataplane.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// socket is bound to an address of the namespace, or to none. It is one of the namespace that the thread is in, which need not be that of who
// uses it.
func socket(from netip.AddrPort, patience time.Duration) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, ownError{fmt.Errorf("open socket: %w", err)}
	}
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
	)
	if from.IsValid() {
		err = errors.Join(err, unix.Bind(fd, sockaddr(from)))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, ownError{fmt.Errorf("open socket of %s: %w", from.Addr(), err)}
	}
	return fd, nil
}

// connect times a handshake.
func connect(fd int, to netip.AddrPort) (took time.Duration, err error) {
	at := sockaddr(to)
	begin := time.Now()
	// After a signal the handshake goes on; asked again, the kernel waits for it.
	for err = unix.Connect(fd, at); errors.Is(err, unix.EINTR); {
		err = unix.Connect(fd, at)
	}
	took = time.Since(begin)
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL): // all ports are taken
		return took, ownError{fmt.Errorf("connect to %s: %w", to, err)}
	case err != nil:
		return took, fmt.Errorf("connect to %s: %w", to, err)
	}
	return took, nil
}

// resent is how often a connection has sent anything again, its SYN included.
func resent(fd int) (int, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, fmt.Errorf("ask how often it was sent again: %w", err)
	}
	return int(info.Total_retrans), nil
}

func sockaddr(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// errUnanswered is the failure of a connection that was accepted.
var errUnanswered = errors.New("read answer")

// who reads the address that answers on a connection.
func who(fd int) (netip.Addr, error) {
	var buf [4]byte
	for have := 0; have < len(buf); {
		n, err := unix.Read(fd, buf[have:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%w: %w", errUnanswered, err)
		}
		if n == 0 {
			return netip.Addr{}, fmt.Errorf("%w: closed", errUnanswered)
		}
		have += n
	}
	return netip.AddrFrom4(buf), nil
}

// source is the client's nth address, any port.
func source(n int) netip.AddrPort { return netip.AddrPortFrom(nth(firstSource, n%sources), 0) }

// Spread is a distribution in three numbers. Of is how many were to be measured;
// N is smaller where the limit ended them.
type Spread struct {
	N, Of         int
	P50, P99, Max time.Duration
}

func spread(in []time.Duration, of int) Spread {
	if len(in) == 0 {
		return Spread{Of: of}
	}
	s := slices.Sorted(slices.Values(in))
	return Spread{N: len(s), Of: of, P50: s[len(s)/2], P99: s[min(len(s)-1, len(s)*99/100)], Max: s[len(s)-1]}
}
