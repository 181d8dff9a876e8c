package iptables

import (
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A Service port has one memory. Frontend 1 sends to a and b, frontend 2 of the
// same group to b alone: a client that had a, and then b by frontend 2, is
// remembered for b, and frontend 1 keeps it there.
func TestOneMemory(t *testing.T) {
	for _, flavour := range []Flavour{NFT, Legacy} {
		t.Run(string(flavour), func(t *testing.T) {
			need.Program(t, "iptables-"+string(flavour)+"-restore")
			ns := netns.ForTest(t, "memory")
			client := netip.MustParseAddr("192.0.2.1")
			if err := ns.Do(func() error { return liveAt(client) }); err != nil {
				t.Fatal(err)
			}
			one, two := frontend(1, 2), frontend(2, 2)
			for _, f := range []*plan.Frontend{&one, &two} {
				f.Affinity, f.Group, f.Outside.Endpoints = time.Hour, one.Key, one.Outside.Endpoints
			}
			a, b := listName(one.Key, one.Outside.Endpoints[0]), listName(one.Key, one.Outside.Endpoints[1])
			two.Outside.Endpoints = two.Outside.Endpoints[1:]
			p := &plan.Plan{Services: map[objects.Name]plan.Service{{}: {Frontends: []plan.Frontend{one, two}}}}
			target := New(Config{Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD(), Flavour: flavour})
			if err := target.Apply(t.Context(), nil, p); err != nil {
				t.Fatal(err)
			}
			has := func(list string) (out bool) {
				t.Helper()
				if err := ns.Do(func() error {
					raw, err := os.ReadFile("/proc/thread-self/net/xt_recent/" + list)
					out = strings.Contains(string(raw), "src="+client.String()+" ")
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return out
			}
			connect := func(f plan.Frontend) {
				t.Helper()
				if err := ns.Do(func() error { return syn(client, f.Key) }); err != nil {
					t.Fatal(err)
				}
			}
			for try := 0; !has(a); try++ { // until chance has chosen a
				if try == 100 {
					t.Fatal("endpoint a is never chosen")
				}
				if err := ns.Do(func() error {
					return os.WriteFile("/proc/thread-self/net/xt_recent/"+b, []byte("-"+client.String()), 0)
				}); err != nil {
					t.Fatal(err)
				}
				connect(one)
			}
			if has(b) {
				t.Fatal("remembered for both after one connection")
			}
			connect(two)
			if has(a) || !has(b) {
				t.Fatalf("after b by the other frontend: remembered for a %t, for b %t", has(a), has(b))
			}
			for range 10 {
				connect(one)
			}
			if has(a) || !has(b) {
				t.Errorf("the first frontend did not keep to b: remembered for a %t, for b %t", has(a), has(b))
			}
		})
	}
}

// liveAt gives the namespace an address and a way to everywhere.
func liveAt(a netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(a.String() + "/32")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(lo, addr); err != nil {
		return err
	}
	everywhere, err := netlink.ParseIPNet("0.0.0.0/0")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: everywhere})
}

// syn sends the first packet of a connection and waits for nothing.
func syn(from netip.Addr, to plan.Key) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()}); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port), Addr: to.Addr.As4()}); err != unix.EINPROGRESS {
		return err
	}
	return nil
}
