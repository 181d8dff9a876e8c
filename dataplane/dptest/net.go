//go:build linux

package dptest

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// Net is the network the cases' packets travel in.
//
//	outside 192.0.2.100 --- 192.0.2.1 +------+ 10.244.1.1 --- pod-a 10.244.1.2
//	                                  | node | 10.244.1.5 --- pod-b 10.244.1.6
//	world   192.0.4.2 ----- 192.0.4.1 +------+ 192.0.3.1 ---- 192.0.3.2 remote, 10.244.2.0/24
//
// IPv6 is alike. The node's default route leads to world, which answers for any
// Service address: what no frontend claims arrives there.
type Net struct {
	Node    *netns.NS
	places  map[Source]*netns.NS
	world   *netns.NS
	ownedBy map[netip.Addr]*netns.NS // whose address it is
	node    map[netip.Addr]bool
}

// The networks of Service addresses that the cases may use.
func serviceCIDRs() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// link is one veth pair between the node and a place.
type link struct {
	place  Source
	name   string
	node   []string
	there  []string
	routes []string // networks behind the place
}

func links() []link {
	return []link{
		{"outside", "out", []string{"192.0.2.1/24", "2001:db8:2::1/64"}, []string{"192.0.2.100/24", "2001:db8:2::100/64"}, nil},
		{"world", "world", []string{"192.0.4.1/24", "2001:db8:4::1/64"}, []string{"192.0.4.2/24", "2001:db8:4::2/64"}, []string{"0.0.0.0/0", "::/0"}},
		{PodA, "pa", []string{"10.244.1.1/30", "fd00:10:244:1::1/126"}, []string{"10.244.1.2/30", "fd00:10:244:1::2/126"}, nil},
		{PodB, "pb", []string{"10.244.1.5/30", "fd00:10:244:1::5/126"}, []string{"10.244.1.6/30", "fd00:10:244:1::6/126"}, nil},
		{Remote, "rem", []string{"192.0.3.1/24", "2001:db8:3::1/64"}, []string{"192.0.3.2/24", "2001:db8:3::2/64"}, []string{"10.244.2.0/24", "fd00:10:244:2::/64"}},
	}
}

// NewNet builds the network; it goes away with the test. It needs root.
func NewNet(t netns.TB) *Net {
	t.Helper()
	n := &Net{Node: netns.ForTest(t, "node"), places: map[Source]*netns.NS{}, ownedBy: map[netip.Addr]*netns.NS{}, node: map[netip.Addr]bool{}}
	n.places[Self] = n.Node
	for _, l := range links() {
		ns := netns.ForTest(t, string(l.place))
		n.places[l.place] = ns
		if err := n.connect(l, ns); err != nil {
			t.Fatalf("%v", err)
		}
	}
	n.world = n.places["world"]
	if err := n.finish(); err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

func (n *Net) connect(l link, ns *netns.NS) error {
	here, there := netns.End{NS: n.Node, Name: l.name}, netns.End{NS: ns, Name: "eth0"}
	for i := range l.node {
		a, b := prefix(l.node[i]), prefix(l.there[i])
		here.Addrs, there.Addrs = append(here.Addrs, a), append(there.Addrs, b)
		n.ownedBy[a.Addr()], n.ownedBy[b.Addr()] = n.Node, ns
		n.node[a.Addr()] = true
	}
	if err := netns.Veth(here, there); err != nil {
		return err
	}
	for i, def := range []string{"0.0.0.0/0", "::/0"} {
		if err := ns.Route(prefix(def), prefix(l.node[i]).Addr()); err != nil {
			return err
		}
		if len(l.routes) > 0 {
			if err := n.Node.Route(prefix(l.routes[i]), prefix(l.there[i]).Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Net) finish() error {
	err := n.Node.Do(func() error {
		for path, value := range map[string]string{
			"net/ipv4/ip_forward":              "1",
			"net/ipv6/conf/all/forwarding":     "1",
			"net/ipv4/icmp_ratelimit":          "0", // refusals by ICMP are limited per destination
			"net/ipv6/icmp/ratelimit":          "0",
			"net/ipv4/conf/all/rp_filter":      "0",
			"net/ipv4/conf/all/accept_local":   "1",
			"net/ipv4/conf/all/send_redirects": "0",
		} {
			if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0o644); err != nil {
				return fmt.Errorf("sysctl %s: %w", path, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	remote := n.places[Remote]
	pods := []netip.Prefix{prefix("10.244.2.0/24"), prefix("fd00:10:244:2::/64")}
	if err := remote.Do(func() error { return answerFor(pods) }); err != nil {
		return fmt.Errorf("addresses of %s: %w", remote.Name, err)
	}
	if err := n.world.Do(func() error { return answerFor(serviceCIDRs()) }); err != nil {
		return fmt.Errorf("addresses of %s: %w", n.world.Name, err)
	}
	return nil
}

// answerFor makes whole networks local, as with "ip route add local", and lets
// servers bind there.
func answerFor(nets []netip.Prefix) error {
	if err := os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("allow binding: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, p := range nets {
		dst, err := netlink.ParseIPNet(p.String())
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("local network %s: %w", p, err)
		}
	}
	return nil
}

// Place is the namespace of a source.
func (n *Net) Place(s Source) *netns.NS { return n.places[s] }

// Home is the namespace that an address lies in.
func (n *Net) Home(a netip.Addr) *netns.NS {
	if ns, ok := n.ownedBy[a]; ok {
		return ns
	}
	for _, p := range []netip.Prefix{prefix("10.244.2.0/24"), prefix("fd00:10:244:2::/64")} {
		if p.Contains(a) {
			return n.places[Remote]
		}
	}
	return n.world
}

// Forget drops what the node's conntrack remembers.
func (n *Net) Forget() error {
	err := n.Node.Do(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
	if err != nil {
		return fmt.Errorf("flush conntrack of %s: %w", n.Node.Name, err)
	}
	return nil
}
