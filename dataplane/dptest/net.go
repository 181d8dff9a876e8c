//go:build linux

package dptest

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Net is the network the cases' packets travel in.
//
//	outside 192.0.2.100 --- 192.0.2.1 +------+ 10.244.1.1 --- pod-a 10.244.1.2
//	foreign 198.51.100.7    192.0.2.2 | node | 10.244.1.5 --- pod-b 10.244.1.6
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
	inits   inits
	ports   atomic.Uint32 // clients' so far
	serving sync.Map      // of *packetServer, all that run
	think   time.Duration // of servers of packets that begin from now on, before each answer
	cgroup  *cgroup.Group // the node's, whose sockets may be translated; nil: it has none
	starve  func()        // what befalls a row's client before it sends and before it reads; may be nil
}

// NewNet builds the network; it goes away with the test. It needs root.
func NewNet(t netns.TB) *Net {
	t.Helper()
	n := &Net{Node: netns.ForTest(t, "node"), places: map[Source]*netns.NS{}, ownedBy: map[netip.Addr]*netns.NS{}, node: map[netip.Addr]bool{}}
	n.places[Self] = n.Node
	for _, a := range loopback() {
		n.ownedBy[a], n.node[a] = n.Node, true
	}
	for _, l := range links() {
		ns := netns.ForTest(t, string(l.place))
		n.places[l.place] = ns
		if err := n.connect(l, ns); err != nil {
			t.Fatalf("%v", err)
		}
	}
	n.world, n.places[Foreign] = n.places[outerWorld], n.places[Outside]
	if err := n.finish(); err != nil {
		t.Fatalf("%v", err)
	}
	if err := n.serveControls(t); err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

func (n *Net) connect(l link, ns *netns.NS) error {
	here, there := netns.End{NS: n.Node, Name: l.name}, netns.End{NS: ns, Name: "eth0"}
	for _, a := range prefixes(l.node...) {
		here.Addrs = append(here.Addrs, a)
		n.ownedBy[a.Addr()], n.node[a.Addr()] = n.Node, true
	}
	for _, a := range prefixes(l.there...) {
		there.Addrs = append(there.Addrs, a)
		n.ownedBy[a.Addr()] = ns
	}
	if err := netns.Veth(here, there); err != nil {
		return err
	}
	for i, def := range []string{"0.0.0.0/0", "::/0"} {
		if err := ns.Route(prefix(def), prefix(l.node[i]).Addr()); err != nil {
			return err
		}
		if len(l.behind) > 0 {
			via, src := prefix(l.there[i]).Addr(), Self.Addrs()[i]
			if err := n.Node.Do(func() error { return route(prefix(l.behind[i]), via, src) }); err != nil {
				return fmt.Errorf("route %s of the node: %w", l.behind[i], err)
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
			"net/ipv4/icmp_ratelimit":          "0", // refusals by ICMP are limited per destination,
			"net/ipv6/icmp/ratelimit":          "0",
			"net/ipv4/icmp_ratemask":           "0", // and those of a mask also in all (icmp_global_allow)
			"net/ipv6/icmp/ratemask":           "\n",
			"net/ipv4/conf/all/rp_filter":      "1", // as distributions set it: a source that
			"net/ipv4/conf/all/accept_local":   "0", // is the node's own, or comes the wrong way, is a martian
			"net/ipv4/conf/all/send_redirects": "0",
			"net/ipv4/tcp_syn_retries":         "127", // of SYNs that a device drops there are two a second: no client gives up before there is a verdict
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
	for place, nets := range map[*netns.NS][]netip.Prefix{
		n.places[Remote]:  remotePods(),
		n.places[Outside]: foreignNets(),
		n.world:           serviceNets(),
	} {
		if err := place.Do(func() error { return answerFor(nets) }); err != nil {
			return fmt.Errorf("addresses of %s: %w", place.Name, err)
		}
	}
	return nil
}

// serveControls lets world answer for as long as the network lives.
func (n *Net) serveControls(t netns.TB) error {
	var rows []Row
	for _, p := range protocols() {
		for _, a := range Self.Addrs() {
			rows = append(rows, Row{Proto: p, To: n.control(a)})
		}
	}
	servers, err := n.Serve(t.Context(), rows)
	if err != nil {
		return err
	}
	t.Cleanup(servers.Close)
	return nil
}

// route adds one with a preferred source: the node's own packets carry its first
// address wherever they go, as those of a machine with one address do.
func route(to netip.Prefix, via, src netip.Addr) error {
	dst, err := netlink.ParseIPNet(to.String())
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: via.AsSlice(), Src: src.AsSlice()})
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

// FD is the node's namespace.
func (n *Net) FD() int { return n.Node.FD() }

// Place is the namespace of a source.
func (n *Net) Place(s Source) *netns.NS { return n.places[s] }

// Home is the namespace that an address lies in.
func (n *Net) Home(a netip.Addr) *netns.NS {
	if ns, ok := n.ownedBy[a]; ok {
		return ns
	}
	for _, p := range remotePods() {
		if p.Contains(a) {
			return n.places[Remote]
		}
	}
	for _, p := range foreignNets() {
		if p.Contains(a) {
			return n.places[Outside]
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
