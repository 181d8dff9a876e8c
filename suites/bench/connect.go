//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a connection may take: longer than one lost SYN (1 s)
// would be seen as lost, not as late.
const patience = 900 * time.Millisecond

// knock opens a connection from a source, reads who answered and closes it with
// a reset, so that no port waits. It must run in the client's namespace. The time
// is that of the handshake.
func knock(from, to netip.AddrPort) (reached netip.Addr, took time.Duration, err error) {
	fd, took, err := dial(from, to)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	defer unix.Close(fd)
	reached, err = who(fd)
	return reached, took, err
}

// dial leaves the connection open.
func dial(from, to netip.AddrPort) (fd int, took time.Duration, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("open socket: %w", err)
	}
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.Bind(fd, sockaddr(from)),
	)
	begin := time.Now()
	if err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	took = time.Since(begin)
	if err != nil {
		_ = unix.Close(fd)
		return -1, took, fmt.Errorf("connect from %s to %s: %w", from.Addr(), to, err)
	}
	return fd, took, nil
}

func sockaddr(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// who reads the address that answers on a connection.
func who(fd int) (netip.Addr, error) {
	var buf [4]byte
	for have := 0; have < len(buf); {
		n, err := unix.Read(fd, buf[have:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return netip.Addr{}, fmt.Errorf("read answer: %w", err)
		}
		if n == 0 {
			return netip.Addr{}, errors.New("read answer: closed")
		}
		have += n
	}
	return netip.AddrFrom4(buf), nil
}

// source is the client's nth address, any port.
func source(n int) netip.AddrPort { return netip.AddrPortFrom(nth(firstSource, n%sources), 0) }

// Load is what came of many connections.
type Load struct {
	Sent, Failed               int // through Services
	ControlSent, ControlFailed int // straight to endpoints
	Long, Broken               int // kept open, and asked again at the end
	First                      string
}

// load opens n connections to random Services, and asks the long ones again at the
// end.
type load struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	errs   [loadWorkers]error
	sent   atomic.Int64

	mu  sync.Mutex
	out Load         // guarded by mu
	fds []int        // guarded by mu; the long ones
	to  []netip.Addr // guarded by mu; whom they reached
}

// workers that open connections at a time; the machine's cores bound the rate.
const loadWorkers = 4

func (w *world) load(ctx context.Context, services, n int) *load {
	l := &load{}
	ctx, l.cancel = context.WithCancel(ctx)
	for k := range loadWorkers {
		l.all.Go(func() {
			l.errs[k] = w.client.Do(func() error {
				r := rand.New(rand.NewPCG(uint64(k), 7))
				for ctx.Err() == nil {
					at := l.sent.Add(1)
					if at > int64(n) {
						return nil
					}
					l.one(r, services, int(at))
				}
				return ctx.Err()
			})
		})
	}
	return l
}

// wait waits until all connections were opened, or cancel was called.
func (l *load) wait() (Load, error) {
	l.all.Wait()
	l.cancel()
	return l.finish(), errors.Join(l.errs[:]...)
}

// one opens a connection: one of eight is a control, some stay open.
func (l *load) one(r *rand.Rand, services, k int) {
	i := 1 + r.IntN(services-1) // not the switched one
	to := netip.AddrPortFrom(vip(i), servicePort)
	if p := nodePort(i); p != 0 && k%2 == 0 {
		to = netip.AddrPortFrom(nodeAddr, p)
	}
	control := k%8 == 0
	if control {
		to = netip.AddrPortFrom(pod(i, 1+r.IntN(endpoints-1), 0), podPort)
	}
	if !control && k%longInterval == 1 {
		l.keep(dialAndAsk(source(k), to))
		return
	}
	_, _, err := knock(source(k), to)
	l.mu.Lock()
	defer l.mu.Unlock()
	if control {
		l.out.ControlSent++
		if err != nil {
			l.out.ControlFailed++
		}
		return
	}
	l.out.Sent++
	l.failed(err)
}

func dialAndAsk(from, to netip.AddrPort) (int, netip.Addr, error) {
	fd, _, err := dial(from, to)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	at, err := who(fd)
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, at, err
}

func (l *load) keep(fd int, at netip.Addr, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Sent++
	if err != nil {
		l.failed(err)
		return
	}
	l.fds, l.to = append(l.fds, fd), append(l.to, at)
}

// failed is called with mu held.
func (l *load) failed(err error) {
	if err == nil {
		return
	}
	l.out.Failed++
	if l.out.First == "" {
		l.out.First = err.Error()
	}
}

// finish asks the long connections whether they still lead where they did.
func (l *load) finish() Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, fd := range l.fds {
		l.out.Long++
		_, err := unix.Write(fd, []byte{1})
		var at netip.Addr
		if err == nil {
			at, err = who(fd)
		}
		if err != nil || at != l.to[k] {
			l.out.Broken++
		}
		_ = unix.Close(fd)
	}
	l.fds, l.to = nil, nil
	return l.out
}

// Spread is a distribution in three numbers.
type Spread struct {
	N             int
	P50, P99, Max time.Duration
}

func spread(in []time.Duration) Spread {
	if len(in) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(in))
	return Spread{N: len(s), P50: s[len(s)/2], P99: s[min(len(s)-1, len(s)*99/100)], Max: s[len(s)-1]}
}
