package userspace

import (
	"net/netip"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// TableName is the name of the tables, one of family ip and one of ip6.
const TableName = "plumbline-userspace"

// view is a group of frontends that are looked up in the same way.
type view uint8

const (
	viewServices       view = iota // by address, protocol and port
	viewNodePorts                  // by protocol and port, at the node's addresses
	viewInsideServices             // the same two for packets of local clients, where these differ
	viewInsideNodePorts
	viewCount
)

func (v view) name() string {
	return [...]string{"services", "nodeports", "inside-services", "inside-nodeports"}[v]
}

func (v view) exact() bool { return v == viewServices || v == viewInsideServices }

// setID names a set of a table. The first ones are one for each view and action.
type setID uint8

const (
	setRestricted   = setID(3*viewCount) + iota
	setSources      // what the restricted frontends let in
	setClusterIPs   // whose other ports are refused
	setServiceCIDRs // whose other addresses are silent
	setNodeAddrs
	setLocalPods
	setCount
)

// set is the set of the frontends of a view that have an action.
func (v view) set(a plan.Action) setID {
	return setID(3*v) + map[plan.Action]setID{plan.Forward: 0, plan.Reject: 1, plan.Drop: 2}[a]
}

// setSpec is one set as the kernel is told of it, for one family.
type setSpec struct {
	name     string
	key      []lib.SetDatatype
	interval bool
}

// specs are the sets of one family, indexed by setID.
func (f family) specs() [setCount]setSpec {
	port := []lib.SetDatatype{lib.TypeInetProto, lib.TypeInetService}
	exact := append([]lib.SetDatatype{f.addrType}, port...)
	addr := []lib.SetDatatype{f.addrType}
	out := [setCount]setSpec{
		setRestricted:   {name: "restricted", key: exact},
		setSources:      {name: "sources", key: append(append([]lib.SetDatatype{}, exact...), f.addrType), interval: true},
		setClusterIPs:   {name: "cluster-ips", key: addr},
		setServiceCIDRs: {name: "service-cidrs", key: addr, interval: true},
		setNodeAddrs:    {name: "node-addresses", key: addr},
		setLocalPods:    {name: "local-pods", key: addr, interval: true},
	}
	for v := range viewCount {
		for _, a := range []plan.Action{plan.Forward, plan.Reject, plan.Drop} {
			spec := setSpec{name: v.name() + "-" + string(a), key: port}
			if v.exact() {
				spec.key = exact
			}
			out[v.set(a)] = spec
		}
	}
	return out
}

// family is what differs between the two tables.
type family struct {
	v6       bool
	proto    byte // NFPROTO_*
	text     string
	addrLen  uint32
	addrType lib.SetDatatype
	saddr    uint32 // offset in the network header
	daddr    uint32
	icmp     byte
	unreach  uint8 // ICMP code of port unreachable
	loopback netip.Addr
	link     plan.Link // by which the node's own pods come, if that tells
}

func ipv4() family {
	return family{
		proto: unix.NFPROTO_IPV4, text: "ip", addrLen: 4, addrType: lib.TypeIPAddr, saddr: 12, daddr: 16,
		icmp: unix.IPPROTO_ICMP, unreach: 3, loopback: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	}
}

func ipv6() family {
	return family{
		v6: true, proto: unix.NFPROTO_IPV6, text: "ip6", addrLen: 16, addrType: lib.TypeIP6Addr, saddr: 8, daddr: 24,
		icmp: unix.IPPROTO_ICMPV6, unreach: 4, loopback: netip.IPv6Loopback(),
	}
}

func families() [2]family { return [2]family{ipv4(), ipv6()} }

func familyOf(v6 bool) family {
	if v6 {
		return ipv6()
	}
	return ipv4()
}

func (f family) table() *lib.Table {
	return &lib.Table{Family: lib.TableFamily(f.proto), Name: TableName}
}

func (f family) set(id setID) *lib.Set {
	s := f.specs()[id]
	key, _ := lib.ConcatSetType(s.key...)
	return &lib.Set{
		Table: f.table(), ID: uint32(id) + 1, Name: s.name, KeyType: key,
		Interval: s.interval, Concatenation: len(s.key) > 1, KeyByteOrder: bigEndian(),
	}
}
