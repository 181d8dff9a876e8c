package plan

import (
	"net/netip"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Packet is the first packet of a connection as it meets the node's rules.
type Packet struct {
	Src      netip.Addr
	Dst      netip.Addr
	Protocol objects.Protocol
	Port     uint16
	// FromNode: sent by the node itself, not forwarded by it.
	FromNode bool
}

// Outcome is what may happen to a packet.
type Outcome struct {
	// Known is false when no frontend claims the packet: it passes unchanged.
	Known  bool
	Action Action
	// To are the destinations of Forward; each may be chosen.
	To []Destination
}

// Destination is a possible destination and whether the source address is
// replaced on the way there.
type Destination struct {
	Endpoint   Endpoint
	Masquerade bool
}

// Resolve says what happens to a packet. It is total: any packet and any plan
// have an outcome, and the same one each time.
func Resolve(p *Plan, pkt Packet) Outcome {
	f, ok := find(p, pkt)
	if !ok {
		return Outcome{}
	}
	route := f.Outside
	if f.Inside != nil && (pkt.FromNode || contains(p.Node.PodCIDRs, pkt.Src)) {
		route = *f.Inside
	}
	out := Outcome{Known: true, Action: route.Action}
	masq := masquerades(p, route.Masquerade, pkt)
	for _, e := range route.Endpoints {
		hairpin := e.Local && e.Addr == pkt.Src
		out.To = append(out.To, Destination{Endpoint: e, Masquerade: masq || hairpin})
	}
	return out
}

// find prefers the exact address over the node port, like any backend must: a
// ClusterIP is never a node's address, but an external address may be.
func find(p *Plan, pkt Packet) (Frontend, bool) {
	index := Index(p)
	key := Key{Kind: ClusterIP, IPv6: pkt.Dst.Is6(), Addr: pkt.Dst, Protocol: pkt.Protocol, Port: pkt.Port}
	if f, ok := index[key]; ok {
		return f, true
	}
	for _, a := range p.Node.Addrs {
		if a == pkt.Dst {
			key.Kind, key.Addr = NodePort, netip.Addr{}
			f, ok := index[key]
			return f, ok
		}
	}
	return Frontend{}, false
}

func masquerades(p *Plan, m Masquerade, pkt Packet) bool {
	switch m {
	case MasqOffCluster:
		return !contains(p.Node.ClusterCIDRs, pkt.Src)
	case MasqAlways:
		return true
	case MasqNode:
		return pkt.FromNode
	}
	return false
}

func contains(ps []netip.Prefix, a netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
