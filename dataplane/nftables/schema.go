package nftables

import (
	"fmt"
	"slices"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// TableName is the name of the tables, one of family ip and one of ip6.
const TableName = "plumbline"

// setID names a set or map of a table. The order matters in one place: of what
// is left over after a restart, frontends go before their slots.
type setID uint8

const (
	setServices setID = iota
	setServicesInside
	setNodePorts
	setNodePortsInside
	setMasqOffCluster
	setMasqAlways
	setMasqNode
	setMasqAlwaysPorts
	setMasqNodePorts
	setHairpin
	setHairpinInside
	setRestricted
	setSources
	setClusterIPs
	setServiceCIDRs
	setNodeAddrs
	setLocalPods
	setGroups
	setGroupPorts
	setTimeouts
	setTimeoutPorts
	setSlots // the first of slotParts for each view
)

// The sets from here on are not of a plan, but of the rules.
const (
	setClasses = setSlots + views*slotParts + iota
	setServiceClasses
	setLearners
	setLearning
	setAffinity // written by the kernel alone
	setParts    // the first of one for each view
	setCount    = setParts + views
)

// slotParts is the number of maps that hold a view's slots; which one is a hash
// of the frontend's key (slotPart). To go on with a dump after each 32 KiB the
// kernel counts elements from the map's beginning, so the time to read one map
// grows with the square of its size.
const slotParts = 8

// isRules tells the sets that belong to the rules from those with a plan's data.
func (s setID) isRules() bool { return s >= setClasses }
func (s setID) isPlan() bool  { return !s.isRules() }

func (s setID) isInterval() bool {
	return s == setServiceCIDRs || s == setLocalPods
}

// number is a number as a key or as data; nft has no plain 4-byte integer type
// that it prints in the host's byte order, except mark.
var number = lib.TypeMark

// setSpec is one set as the kernel is told of it, for one family.
type setSpec struct {
	name     string
	key      []lib.SetDatatype
	data     []lib.SetDatatype // none: a set, not a map
	interval bool              // of single addresses: a start and an element past the end
	ranges   bool              // concatenations: each element has two keys
	learned  bool              // the kernel adds elements, each with a timeout
	jump     bool              // verdicts return to the caller
}

func (s setSpec) isMap() bool     { return len(s.data) > 0 }
func (s setSpec) isVerdict() bool { return s.isMap() && s.data[0].Name == lib.TypeVerdict.Name }

// specsOf describes the sets of one family.
func specsOf(addr lib.SetDatatype) *[setCount]setSpec {
	type types = []lib.SetDatatype
	vip := types{addr, lib.TypeInetProto, lib.TypeInetService}
	port := types{lib.TypeInetProto, lib.TypeInetService}
	class, verdict := types{lib.TypeClassID}, types{lib.TypeVerdict}
	to := types{addr, lib.TypeInetService}
	out := &[setCount]setSpec{
		setServices:        {name: "services", key: vip, data: class},
		setServicesInside:  {name: "services-inside", key: vip, data: class},
		setNodePorts:       {name: "nodeports", key: port, data: class},
		setNodePortsInside: {name: "nodeports-inside", key: port, data: class},
		setMasqOffCluster:  {name: "masquerade-off-cluster", key: vip},
		setMasqAlways:      {name: "masquerade-always", key: vip},
		setMasqNode:        {name: "masquerade-node", key: vip},
		setMasqAlwaysPorts: {name: "masquerade-always-nodeports", key: port},
		setMasqNodePorts:   {name: "masquerade-node-nodeports", key: port},
		setHairpin:         {name: "hairpin", key: types{addr, addr}},
		setHairpinInside:   {name: "hairpin-inside", key: types{addr, addr}},
		setRestricted:      {name: "restricted", key: vip},
		setSources:         {name: "restricted-sources", key: types{addr, lib.TypeInetProto, lib.TypeInetService, addr}, ranges: true},
		setClusterIPs:      {name: "cluster-ips", key: types{addr}},
		setServiceCIDRs:    {name: "service-cidrs", key: types{addr}},
		setNodeAddrs:       {name: "node-addresses", key: types{addr}},
		setLocalPods:       {name: "local-pods", key: types{addr}},
		setGroups:          {name: "affinity-groups", key: vip, data: types{number}},
		setGroupPorts:      {name: "affinity-groups-nodeports", key: port, data: types{number}},
		setTimeouts:        {name: "affinity-timeouts", key: vip, data: types{number}},
		setTimeoutPorts:    {name: "affinity-timeouts-nodeports", key: port, data: types{number}},
		setClasses:         {name: "classes", key: class, data: verdict},
		setServiceClasses:  {name: "service-classes", key: class, data: verdict},
		setLearners:        {name: "learners", key: types{number}, data: verdict},
		setLearning:        {name: "learning", key: types{lib.TypeInetProto}, data: verdict, jump: true},
		setAffinity:        {name: "affinity", key: types{addr, number}, data: types{number}, learned: true},
	}
	for v := viewServices; v <= views; v++ {
		key := vip
		if v.isPort() {
			key = port
		}
		out[v.parts()] = setSpec{name: v.slotsName(), key: types{number}, data: types{lib.TypeVerdict}, jump: true}
		for part := range slotParts {
			out[v.slots(part)] = setSpec{name: v.slotsChain(part), key: append(slices.Clone(key), number), data: to}
		}
	}
	for id := range out {
		out[id].interval = setID(id).isInterval()
	}
	return out
}

// family is what differs between the two tables.
type family struct {
	v6      bool
	proto   byte // NFPROTO_*
	addrLen uint32
	saddr   uint32 // offset in the network header
	daddr   uint32
	ctDst   uint32 // NFT_CT_DST_IP or _IP6: the original destination
	unreach uint8  // ICMP code of port unreachable
	text    string
	sets    *[setCount]setSpec // indexed by setID
	link    plan.Link          // by which the node's own pods come, if that tells
}

// both are the two families, made once for each Target: describing the sets
// anew for every element would be most of a change's cost.
type both [2]family

func newBoth() *both {
	return &both{
		{proto: unix.NFPROTO_IPV4, addrLen: 4, saddr: 12, daddr: 16, ctDst: ctDstIP, unreach: 3, text: "ip", sets: specsOf(lib.TypeIPAddr)},
		{v6: true, proto: unix.NFPROTO_IPV6, addrLen: 16, saddr: 8, daddr: 24, ctDst: ctDstIP6, unreach: 4, text: "ip6", sets: specsOf(lib.TypeIP6Addr)},
	}
}

// by has the rules tell the node's own pods by a link.
func (b *both) by(link plan.Link) *both {
	b[0].link, b[1].link = link, link
	return b
}

func (b *both) of(v6 bool) family {
	if v6 {
		return b[1]
	}
	return b[0]
}

// Keys of the ct expression that golang.org/x/sys does not name
// (include/uapi/linux/netfilter/nf_tables.h, Linux 4.17).
const (
	ctDstIP  = 20
	ctDstIP6 = 22
)

// view is a map of frontends and its map of slots. The number is the upper half
// of a class, so nft prints class 1:3 for three endpoints in view 1, 11:3 if clients
// are remembered, and 21:3 or 31:3 if it is guarded.
type view uint8

const (
	viewVerdict view = iota // 0:1 reject, 0:2 drop
	viewServices
	viewServicesInside
	viewNodePorts
	viewNodePortsInside
	views = iota - 1 // that have slots
)

func (v view) name() string {
	names := [...]string{"verdict", "services", "services-inside", "nodeports", "nodeports-inside"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("view-%d", uint8(v)) // only another program writes such a class
}

func (v view) fronts() setID {
	return [...]setID{0, setServices, setServicesInside, setNodePorts, setNodePortsInside}[v]
}

// classes is the vmap from the view's classes to their chains. That of guarded ones is
// not the one that guards look into: the kernel would take that for a loop.
func (v view) classes() setID {
	if v == viewServices {
		return setServiceClasses
	}
	return setClasses
}

// parts is the vmap from a part's number to the chain that looks it up.
func (v view) parts() setID { return setParts + setID(v-1) }

// slots is the map of one part of the view's slots.
func (v view) slots(part int) setID { return setSlots + setID(int(v-1)*slotParts+part) }

// ofSlots takes the number of such a map apart.
func (s setID) ofSlots() (v view, part int, ok bool) {
	n := int(s - setSlots)
	return view(1 + n/slotParts), n % slotParts, setSlots <= s && s < setClasses
}

func (v view) slotsName() string {
	return [...]string{"", "service-slots", "service-inside-slots", "nodeport-slots", "nodeport-inside-slots"}[v]
}

// slotsChain is the name of a part, both of the map and of its chain.
func (v view) slotsChain(part int) string { return fmt.Sprintf("%s-%d", v.slotsName(), part) }

// isPort tells whether the view's keys are without an address.
func (v view) isPort() bool { return v >= viewNodePorts }

// class is what a frontend's element holds: the view, whether clients are
// remembered, and the number of slots, or one of the verdicts. It travels from
// the frontend's map to the vmap of its view's classes in the packet's priority field.
//
// A guarded one has a look at the source first: not all may come, or local pods
// have another view. So frontends without such a rule pay nothing for those with one.
type class struct {
	view    view
	sticky  bool
	guarded bool
	n       uint16
}

var (
	classReject = class{view: viewVerdict, n: 1}
	classDrop   = class{view: viewVerdict, n: 2}
)

// maxSlots is the largest number of endpoints of one frontend.
const maxSlots = 1<<16 - 1

const (
	stickyBit  = 0x10
	guardedBit = 0x20
)

// bytes is the class in the order nft prints a classid of unknown byte order,
// major:minor. Only equality counts for the kernel.
func (c class) bytes() string {
	v := byte(c.view)
	if c.sticky {
		v |= stickyBit
	}
	if c.guarded {
		v |= guardedBit
	}
	return string([]byte{0, v, byte(c.n >> 8), byte(c.n)})
}

func parseClass(raw string) class {
	v := raw[1]
	return class{view: view(v &^ (stickyBit | guardedBit)), sticky: v&stickyBit != 0, guarded: v&guardedBit != 0, n: uint16(raw[2])<<8 | uint16(raw[3])}
}

// past is the class behind the guard.
func (c class) past() class {
	c.guarded = false
	return c
}

// chainName is the chain a class selects. A name must not be one of nft's words, such as
// drop, or nft cannot read what it lists.
func (c class) chainName() string {
	switch {
	case c.guarded:
		return "guarded-" + c.past().chainName()
	case c == classReject:
		return "rejected"
	case c == classDrop:
		return "dropped"
	case c.sticky:
		return fmt.Sprintf("sticky-%s-%d", c.view.name(), c.n)
	}
	return fmt.Sprintf("%s-%d", c.view.name(), c.n)
}
