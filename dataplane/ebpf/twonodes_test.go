package ebpf_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

// Two nodes on one kernel have the same Service, each with an endpoint of its own. A socket that was made
// on one of them is translated by that one's maps and never by the other's, wherever it speaks, and one
// that was made on neither by none.
func TestSocketsOfTwoNodes(t *testing.T) {
	t.Parallel()
	of := func(endpoint int) (service, *world) {
		s := service{number: 1, endpoints: both(endpoint)}
		w := socketWorld(t, planOf(s))
		w.echo(pod(false, endpoint))
		w.echo(pod(true, endpoint))
		return s, w
	}
	s, a := of(2)
	_, b := of(3)
	counted := func(what string, ofA, ofB uint64) {
		t.Helper()
		if got := [2]uint64{a.count("new"), b.count("new")}; got != [2]uint64{ofA, ofB} {
			t.Errorf("%s: %d connections began on each node, want %d and %d", what, got, ofA, ofB)
		}
	}
	for _, w := range []*world{a, b} {
		for _, from := range here() {
			for _, to := range []netip.AddrPort{s.vip(false), s.vip(true), s.nodePort(false)} {
				for _, network := range []string{"tcp", "udp"} {
					if peer, err := w.asks(from, network, to); err != nil || peer != to {
						t.Errorf("%s to %s by %s: the socket says %s, %v", from, to, network, peer, err)
					}
				}
			}
		}
	}
	counted("each speaks at home", 12, 12)
	// The cgroup decides, not the network: in B's, a socket of A asks A, whose endpoint is not there.
	err := a.As(dptest.PodA, func() error {
		if err := unix.Setns(b.Place(dptest.PodA).FD(), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return peerWithout(s.vip(false), pod(false, 2))
	})
	if err != nil {
		t.Error(err)
	}
	counted("one of A is in B's network", 13, 12)
	for _, w := range []*world{a, b} {
		w.in(w.Place(dptest.Self), func() error { return peerWithout(s.vip(false), s.vip(false)) })
	}
	counted("some of neither", 13, 12)
}

// peerWithout connects a UDP socket, which sends nothing, and wants it to speak to an address by what
// the kernel has of it: getpeername says what was asked for.
func peerWithout(to, want netip.AddrPort) error {
	c, err := net.Dial("udp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	got, err := spokenTo(c.LocalAddr().(*net.UDPAddr).AddrPort())
	if err == nil && got != want {
		err = fmt.Errorf("a socket connected to %s speaks to %s, want %s", to, got, want)
	}
	return err
}

// spokenTo is the other end of the UDP socket of IPv4 with this one, as the kernel has it.
func spokenTo(local netip.AddrPort) (netip.AddrPort, error) {
	all, err := netlink.SocketDiagUDP(unix.AF_INET)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, s := range all {
		if at, _ := netip.AddrFromSlice(s.ID.Source.To4()); netip.AddrPortFrom(at, s.ID.SourcePort) == local {
			to, _ := netip.AddrFromSlice(s.ID.Destination.To4())
			return netip.AddrPortFrom(to, s.ID.DestinationPort), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no socket at %s", local)
}
