package dptest

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// NodeName is the node under test; "there" is the usual name of the other one.
const NodeName = "here"

// Source is a place that packets come from.
type Source string

// The sources.
const (
	Outside Source = "outside" // a client beyond the cluster
	Foreign Source = "foreign" // another one, of another network
	PodA    Source = "pod-a"   // a pod on the node
	PodB    Source = "pod-b"   // another
	Remote  Source = "remote"  // a pod on the other node
	Self    Source = "node"    // the node itself
)

// Addrs are each source's addresses, IPv4 and IPv6.
func (s Source) Addrs() [2]netip.Addr {
	pair := func(v4, v6 string) [2]netip.Addr {
		return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
	}
	switch s {
	case Outside:
		return pair("192.0.2.100", "2001:db8:2::100")
	case Foreign:
		return pair("198.51.100.7", "2001:db8:7::7")
	case PodA:
		return pair("10.244.1.2", "fd00:10:244:1::2")
	case PodB:
		return pair("10.244.1.6", "fd00:10:244:1::6")
	case Remote:
		return pair("10.244.2.2", "fd00:10:244:2::2")
	}
	return pair("192.0.2.1", "2001:db8:2::1")
}

// Addr is the source's address of the family of another.
func (s Source) Addr(like netip.Addr) netip.Addr {
	return s.Addrs()[family(like)]
}

// family is the index of an address's family in what comes in pairs.
func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

func (s Source) known() bool {
	return slices.Contains([]Source{Outside, Foreign, PodA, PodB, Remote, Self}, s)
}

// here tells whether a source's sockets are on the node.
func (s Source) here() bool { return s == Self || s == PodA || s == PodB }

// Node is the node under test, as the API shows it.
func Node() objects.Node {
	addrs := Self.Addrs()
	return objects.Node{
		Name:        NodeName,
		InternalIPs: addrs[:],
		PodCIDRs:    prefixes("10.244.1.0/24", "fd00:10:244:1::/64"),
	}
}

// The networks of Service addresses that the cases may use: ClusterIPs of two
// ranges, and addresses that come from outside the cluster.
func serviceNets() []netip.Prefix {
	return prefixes("10.96.0.0/16", "fd00:10:96::/112", "10.97.0.0/16", "fd00:10:97::/112", "203.0.113.0/24", "2001:db8:cb::/64")
}

// The pods of the other node.
func remotePods() []netip.Prefix { return prefixes("10.244.2.0/24", "fd00:10:244:2::/64") }

// The networks of clients of another network, all of them in the place of Outside.
func foreignNets() []netip.Prefix { return prefixes("198.51.100.0/24", "2001:db8:7::/64") }

// loopback is where only the node reaches itself.
func loopback() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, prefix(s))
	}
	return out
}

// outerWorld is the place beyond the node's default route. Nothing comes from
// there.
const outerWorld Source = "world"

// link is one veth pair between the node and a place.
type link struct {
	place  Source
	name   string
	node   []string // the node's addresses, IPv4 and IPv6 in turn; the first two are the others' gateways
	there  []string
	behind []string // networks that the node reaches through the place, IPv4 and IPv6 in turn
}

// link is the node's to a place.
func (s Source) link() string {
	if s == Foreign {
		s = Outside
	}
	for _, l := range links() {
		if l.place == s {
			return l.name
		}
	}
	return ""
}

func links() []link {
	return []link{
		{
			Outside, "out", []string{"192.0.2.1/24", "2001:db8:2::1/64", "192.0.2.2/24", "2001:db8:2::2/64"},
			[]string{"192.0.2.100/24", "2001:db8:2::100/64"}, []string{"198.51.100.0/24", "2001:db8:7::/64"},
		},
		{outerWorld, "world", []string{"192.0.4.1/24", "2001:db8:4::1/64"}, []string{"192.0.4.2/24", "2001:db8:4::2/64"}, []string{"0.0.0.0/0", "::/0"}},
		{PodA, "pa", []string{"10.244.1.1/30", "fd00:10:244:1::1/126"}, []string{"10.244.1.2/30", "fd00:10:244:1::2/126"}, nil},
		{PodB, "pb", []string{"10.244.1.5/30", "fd00:10:244:1::5/126"}, []string{"10.244.1.6/30", "fd00:10:244:1::6/126"}, nil},
		{Remote, "rem", []string{"192.0.3.1/24", "2001:db8:3::1/64"}, []string{"192.0.3.2/24", "2001:db8:3::2/64"}, []string{"10.244.2.0/24", "fd00:10:244:2::/64"}},
	}
}

// Local are the addresses of the node's interfaces.
func Local() objects.LocalAddrs {
	var out objects.LocalAddrs
	for _, l := range links() {
		for _, a := range l.node {
			out = append(out, prefix(a).Addr())
		}
	}
	return out
}

// bypassed tells whether some answer to a row would not come back through the
// node, because it begins where the packet did and the source is kept: there the
// client gets an answer from a foreign address. So it is in a real cluster. What a
// socket has translated gets the answer that it expects, whichever way that comes.
func bypassed(r Row, n plan.Node) bool {
	if n.Sockets && r.From.here() {
		return false
	}
	home := func(a netip.Addr) Source {
		for _, s := range []Source{PodA, PodB} {
			if s.Addr(a) == a {
				return s
			}
		}
		for _, p := range append(remotePods(), prefixes("192.0.3.2/32", "2001:db8:3::2/128")...) {
			if p.Contains(a) {
				return Remote
			}
		}
		return ""
	}
	return slices.ContainsFunc(r.Dests, func(d Dest) bool { return !d.Masked && home(d.At.Addr()) == r.From })
}
