package ebpf

import (
	"encoding/binary"
	"net/netip"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// layout is the version of what is in the maps: it is in the name of the folder that they are
// pinned in, and another one never takes over what the plan says in them (layouts.go). It is v and a
// number. The test of an upgrade builds a program with another one (-ldflags -X).
var layout = "v2" // const

// Sizes are how much the maps hold at most. A full map of frontends or endpoints refuses what
// comes; of connections and clients the one that was not used for the longest time goes.
type Sizes struct {
	Frontends   uint32 // and as many addresses
	Endpoints   uint32 // of all routes of all frontends together
	Sources     uint32 // source ranges of all frontends together
	Connections uint32 // entries: two for each connection, four for a masqueraded one
	Clients     uint32 // that affinity remembers
}

// DefaultSizes hold 44 000 Services with three endpoints each.
func DefaultSizes() Sizes {
	return Sizes{Frontends: 1 << 17, Endpoints: 1 << 19, Sources: 1 << 16, Connections: 1 << 18, Clients: 1 << 16}
}

// The words of bpf/maps.h.
const (
	configServiceCIDRs = 1

	deviceOwnPods = 1

	networkOwnPods  = 1
	networkServices = 2

	addressClusterIP = 1
	addressNode      = 2
	addressFrontends = 4

	frontendAddress   = 0
	frontendNodePort  = 4
	frontendNodePort6 = 6

	frontendHasInside  = 1
	frontendRestricted = 2

	endpointLocal    = 1 // or unplaced: it may be its own client, which is all that programs ask
	endpointHost     = 2
	endpointUnplaced = 4 // of the plan, to be read back: no program asks for it

	stepEgress = 1

	flowReplied     = 1
	flowEstablished = 2
	flowFINs        = 4 | 8
	flowReset       = 16
)

// actions and masquerades are the plan's words in the order of their numbers.
func actions() []plan.Action { return []plan.Action{plan.Forward, plan.Drop, plan.Reject} }

// place is where an endpoint is.
type place struct {
	addr plumbAddr
	port uint16
}

func toAddr(a netip.Addr) (out plumbAddr) {
	b := a.As16()
	for i := range out.W {
		out.W[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return out
}

func fromAddr(a plumbAddr) netip.Addr {
	var b [16]byte
	for i, w := range a.W {
		binary.NativeEndian.PutUint32(b[4*i:], w)
	}
	return netip.AddrFrom16(b).Unmap()
}

// bits is how long a prefix is among addresses of 16 bytes.
func bits(p netip.Prefix) uint32 { return uint32(p.Bits() + 128 - p.Addr().BitLen()) }

func toPrefix(a plumbAddr, bits uint32) netip.Prefix {
	addr := fromAddr(a)
	return netip.PrefixFrom(addr, int(bits)-128+addr.BitLen())
}

// swapped changes between a port's value and its bytes in network order.
func swapped(port uint16) uint16 { return port<<8 | port>>8 }

func toPlace(e plan.Endpoint) place { return place{toAddr(e.Addr), swapped(e.Port)} }

func toFlags(e plan.Endpoint) (out uint16) {
	if e.MayBeClient(false) {
		out |= endpointLocal
	}
	if e.Unplaced {
		out |= endpointUnplaced
	}
	if e.Host {
		out |= endpointHost
	}
	return out
}

func fromPlace(at place, flags uint16) plan.Endpoint {
	return plan.Endpoint{
		Addr: fromAddr(at.addr), Port: swapped(at.port),
		Local: flags&(endpointLocal|endpointUnplaced) == endpointLocal, Unplaced: flags&endpointUnplaced != 0, Host: flags&endpointHost != 0,
	}
}

// toKey is not for wildcards, which are a class of their address.
func toKey(k plan.Key) plumbFrontendKey {
	out := plumbFrontendKey{Port: swapped(k.Port), Proto: uint8(k.Protocol)}
	switch {
	case !k.IsNodePort():
		out.Addr = toAddr(k.Addr)
	case k.IPv6:
		out.Kind = frontendNodePort6
	default:
		out.Kind = frontendNodePort
	}
	return out
}

func fromKey(k plumbFrontendKey) plan.Key {
	out := plan.Key{Protocol: objects.Protocol(k.Proto), Port: swapped(k.Port), IPv6: k.Kind == frontendNodePort6}
	if k.Kind == frontendAddress {
		out.Addr = fromAddr(k.Addr)
		out.IPv6 = out.Addr.Is6()
	}
	return out
}

// Supports tells whether the ports of a protocol are served.
func Supports(p objects.Protocol) bool { return p == objects.TCP || p == objects.UDP }

// served are the frontends of a plan that have an entry: none of a protocol that is not
// supported, and no wildcard.
func served(k plan.Key) bool { return !k.IsWildcard() && Supports(k.Protocol) }

// networks are what packets' addresses may be within, each with all that holds for it.
func networks(n plan.Node) map[netip.Prefix]uint32 {
	out := map[netip.Prefix]uint32{}
	all := map[uint32][]netip.Prefix{networkOwnPods: n.LocalPods, networkServices: n.ServiceCIDRs}
	for _, prefixes := range all {
		for _, p := range prefixes {
			p = p.Masked()
			for flag, others := range all {
				for _, o := range others {
					if o.Bits() <= p.Bits() && o.Overlaps(p) {
						out[p] |= flag
					}
				}
			}
		}
	}
	return out
}

// classes are the addresses of a plan.
func classes(n plan.Node, keys func(func(plan.Key) bool)) map[netip.Addr]uint32 {
	out := map[netip.Addr]uint32{}
	for _, a := range n.Addrs {
		out[a] |= addressNode
	}
	for k := range keys {
		if class := classOf(k); class != 0 {
			out[k.Addr] |= class
		}
	}
	return out
}

// classOf is what a frontend makes of its address, 0 for node ports.
func classOf(k plan.Key) uint32 {
	switch {
	case k.IsNodePort():
		return 0
	case k.IsWildcard():
		return addressClusterIP
	case served(k):
		return addressFrontends
	}
	return 0
}
