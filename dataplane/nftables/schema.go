package nftables

import (
	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// TableName is the name of the tables, one of family ip and one of ip6.
const TableName = "plumbline"

// setID names a set or map of a table. The order matters in one place: of what
// is left over after a restart, frontends go before their slots.
type setID uint8

const (
	setServices setID = iota
	setNodePorts
	setInside
	setServiceSlots
	setNodePortSlots
	setInsideSlots
	setMasqOffCluster
	setMasqNodePorts
	setMasqNode
	setHairpin
	setNodeAddrs
	setLocalPods
	setClusterPods
	setClasses
	setCount
)

// Key and data types that occur beside an address of the table's family.
// SlotIndex is a number; nft has no plain 4-byte integer type that it prints in
// the host's byte order, except mark.
var slotIndex = lib.TypeMark

// setSpec is one set as the kernel is told of it, for one family.
type setSpec struct {
	name     string
	key      []lib.SetDatatype
	data     []lib.SetDatatype // none: a set, not a map
	interval bool
}

func (s setSpec) isMap() bool { return len(s.data) > 0 }

// specs are the sets of one family, indexed by setID.
func (f family) specs() [setCount]setSpec {
	addr := f.addrType
	vip := []lib.SetDatatype{addr, lib.TypeInetProto, lib.TypeInetService}
	port := []lib.SetDatatype{lib.TypeInetProto, lib.TypeInetService}
	class := []lib.SetDatatype{lib.TypeClassID}
	to := []lib.SetDatatype{addr, lib.TypeInetService}
	slot := func(k []lib.SetDatatype) []lib.SetDatatype {
		return append(append([]lib.SetDatatype{}, k...), slotIndex)
	}
	return [setCount]setSpec{
		setServices:       {name: "services", key: vip, data: class},
		setServiceSlots:   {name: "service-slots", key: slot(vip), data: to},
		setNodePorts:      {name: "nodeports", key: port, data: class},
		setNodePortSlots:  {name: "nodeport-slots", key: slot(port), data: to},
		setInside:         {name: "nodeports-inside", key: port, data: class},
		setInsideSlots:    {name: "nodeport-inside-slots", key: slot(port), data: to},
		setMasqOffCluster: {name: "masquerade-off-cluster", key: vip},
		setMasqNodePorts:  {name: "masquerade-nodeports", key: port},
		setMasqNode:       {name: "masquerade-node", key: port},
		setHairpin:        {name: "hairpin", key: []lib.SetDatatype{addr, addr}},
		setNodeAddrs:      {name: "node-addresses", key: []lib.SetDatatype{addr}},
		setLocalPods:      {name: "local-pods", key: []lib.SetDatatype{addr}, interval: true},
		setClusterPods:    {name: "cluster-pods", key: []lib.SetDatatype{addr}, interval: true},
		setClasses:        {name: "classes", key: class, data: []lib.SetDatatype{lib.TypeVerdict}},
	}
}

// family is what differs between the two tables.
type family struct {
	v6       bool
	proto    byte // NFPROTO_*
	addrLen  uint32
	addrType lib.SetDatatype
	saddr    uint32 // offset in the network header
	daddr    uint32
	ctDst    uint32 // NFT_CT_DST_IP or _IP6: the original destination
	unreach  uint8  // ICMP code of port unreachable
	text     string
}

func ipv4() family {
	return family{proto: unix.NFPROTO_IPV4, addrLen: 4, addrType: lib.TypeIPAddr, saddr: 12, daddr: 16, ctDst: ctDstIP, unreach: 3, text: "ip"}
}

func ipv6() family {
	return family{v6: true, proto: unix.NFPROTO_IPV6, addrLen: 16, addrType: lib.TypeIP6Addr, saddr: 8, daddr: 24, ctDst: ctDstIP6, unreach: 4, text: "ip6"}
}

func families() [2]family { return [2]family{ipv4(), ipv6()} }

func familyOf(v6 bool) family {
	if v6 {
		return ipv6()
	}
	return ipv4()
}

// Keys of the ct expression that golang.org/x/sys does not name
// (include/uapi/linux/netfilter/nf_tables.h, Linux 4.17).
const (
	ctDstIP  = 20
	ctDstIP6 = 22
)

// view is a map of frontends and its map of slots. The number is the upper half
// of a class, so nft prints class 1:3 for three endpoints in view 1.
type view uint8

const (
	viewVerdict view = iota // 0:1 reject, 0:2 drop
	viewServices
	viewNodePorts
	viewInside
)

func (v view) name() string {
	return [...]string{"verdict", "services", "nodeports", "inside"}[v]
}

func (v view) fronts() setID {
	return [...]setID{0, setServices, setNodePorts, setInside}[v]
}

func (v view) slots() setID {
	return [...]setID{0, setServiceSlots, setNodePortSlots, setInsideSlots}[v]
}

// class is what a frontend's element holds: the view and the number of slots,
// or one of the verdicts. It travels from the frontend's map to the vmap
// "classes" in the packet's priority field.
type class struct {
	view view
	n    uint16
}

var (
	classReject = class{viewVerdict, 1}
	classDrop   = class{viewVerdict, 2}
)

// maxSlots is the largest number of endpoints of one frontend.
const maxSlots = 1<<16 - 1

// bytes is the class in the order nft prints a classid of unknown byte order,
// major:minor. Only equality counts for the kernel.
func (c class) bytes() string {
	return string([]byte{0, byte(c.view), byte(c.n >> 8), byte(c.n)})
}
