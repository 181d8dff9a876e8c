package instance

import (
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Host runs load balancers as processes in this program's own network namespace,
// each to be bound to a loopback address. The host gets neither a link nor an
// address. It is for clusters of others: it knows nothing of their machines.
type Host struct{ *Processes }

// NewHost checks that the program is there and that the ranges are IPv4 loopback:
// of IPv6 the host has one such address.
func NewHost(o ProcessOptions) (*Host, error) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := checkRanges(o.Ranges, loopback, "the loopback addresses"); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := newProcesses(o, "host")
	if err != nil {
		return nil, err
	}
	p.place = loopbackPlace{o.Ranges}
	p.caps = []uintptr{unix.CAP_NET_BIND_SERVICE} // ports below 1024, without a sysctl of the host
	return &Host{p}, nil
}

type loopbackPlace struct{ ranges []netip.Prefix }

// enter gives f a thread that ends with it: the goroutine stays locked.
func (loopbackPlace) enter(_ Spec, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func (loopbackPlace) remove(string) error    { return nil }
func (loopbackPlace) holds(string, int) bool { return true }

// taken are the addresses of the ranges that somebody listens at.
func (l loopbackPlace) taken() (map[netip.Addr]string, error) {
	sockets, err := netlink.SocketDiagTCP(unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list listening sockets: %w", err)
	}
	const listen = 10 // TCP_LISTEN, include/net/tcp_states.h
	taken := map[netip.Addr]string{}
	for _, s := range sockets {
		a, ok := netip.AddrFromSlice(s.ID.Source)
		if !ok || s.State != listen {
			continue
		}
		for _, r := range l.ranges {
			if r.Contains(a.Unmap()) {
				taken[a.Unmap()] = fmt.Sprintf("who listens at its port %d", s.ID.SourcePort)
			}
		}
	}
	return taken, nil
}
