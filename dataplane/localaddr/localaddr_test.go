//go:build linux

package localaddr_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/dataplane/localaddr"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/netns"
)

const patience = 60 * time.Second

// follow runs in a namespace and returns what the sink gets.
func follow(t *testing.T, ns *netns.NS) <-chan objects.LocalAddrs {
	t.Helper()
	got := make(chan objects.LocalAddrs, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	go func() {
		done <- localaddr.Run(ctx, localaddr.Config{NetNS: ns.FD(), Logger: log}, func(a objects.LocalAddrs) { got <- a })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("does not end with its context")
		}
	})
	return got
}

func next(t *testing.T, got <-chan objects.LocalAddrs) []string {
	t.Helper()
	select {
	case as := <-got:
		out := []string{}
		for _, a := range as {
			out = append(out, a.String())
		}
		return out
	case <-time.After(patience):
		t.Fatal("nothing reached the sink")
	}
	return nil
}

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func do(t *testing.T, ns *netns.NS, f func() error) {
	t.Helper()
	if err := ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

func change(t *testing.T, ns *netns.NS, what func(netlink.Link, *netlink.Addr) error, cidrs ...string) {
	t.Helper()
	changeOn(t, ns, "x", what, cidrs...)
}

func changeOn(t *testing.T, ns *netns.NS, name string, what func(netlink.Link, *netlink.Addr) error, cidrs ...string) {
	t.Helper()
	do(t, ns, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, c := range cidrs {
			a, err := netlink.ParseAddr(c)
			if err != nil {
				return err
			}
			if err := what(link, a); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
		}
		return nil
	})
}

// link makes the link x, which is down: then it gets no address by itself.
func link(t *testing.T, ns *netns.NS) {
	t.Helper()
	do(t, ns, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x"}, PeerName: "y"})
	})
}

// The first call has everything that is there, sorted, without loopback and
// link-local addresses; each change is told, and nothing twice.
func TestFollow(t *testing.T) {
	ns := netns.ForTest(t, "addrs")
	link(t, ns)
	change(t, ns, netlink.AddrAdd, "192.0.2.7/24", "192.0.2.3/32", "169.254.1.1/16", "127.0.0.9/8", "2001:db8::5/64", "fe80::1/64")
	changeOn(t, ns, "y", netlink.AddrAdd, "192.0.2.7/32") // once more
	got := follow(t, ns)
	is(t, next(t, got), "192.0.2.3", "192.0.2.7", "2001:db8::5")
	change(t, ns, netlink.AddrAdd, "203.0.113.1/24")
	is(t, next(t, got), "192.0.2.3", "192.0.2.7", "203.0.113.1", "2001:db8::5")
	change(t, ns, netlink.AddrAdd, "169.254.1.2/16") // concerns nobody
	change(t, ns, netlink.AddrDel, "192.0.2.3/32")
	is(t, next(t, got), "192.0.2.7", "203.0.113.1", "2001:db8::5")
	do(t, ns, func() error {
		link, err := netlink.LinkByName("x")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
	for as := next(t, got); len(as) > 0; as = next(t, got) { // the kernel takes them away one by one
	}
}

// A namespace without addresses is told of too: the agent waits for the first call.
func TestNone(t *testing.T) { is(t, next(t, follow(t, netns.ForTest(t, "none")))) }

// On a point-to-point link the address is the near end's.
func TestPeer(t *testing.T) {
	ns := netns.ForTest(t, "peer")
	link(t, ns)
	change(t, ns, func(l netlink.Link, a *netlink.Addr) error {
		peer, err := netlink.ParseIPNet("192.0.2.2/32")
		a.Peer = peer
		if err != nil {
			return err
		}
		return netlink.AddrAdd(l, a)
	}, "192.0.2.1/32")
	is(t, next(t, follow(t, ns)), "192.0.2.1")
}

// Many changes at once end in the right state, whatever is lost on the way.
func TestBurst(t *testing.T) {
	ns := netns.ForTest(t, "burst")
	link(t, ns)
	got := follow(t, ns)
	is(t, next(t, got))
	var all []string
	for i := range 3000 {
		all = append(all, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String()+"/32")
	}
	change(t, ns, netlink.AddrAdd, all...)
	for len(next(t, got)) < len(all) {
	}
	change(t, ns, netlink.AddrDel, all[1:]...)
	for as := next(t, got); len(as) > 1; as = next(t, got) {
	}
}
