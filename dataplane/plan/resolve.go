package plan

import (
	"net/netip"
	"time"

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
	// Here: its socket is on this node, one of the node itself or of a pod on it. What the node
	// sends itself always is; of others only who made the socket can say so, not the address: pods
	// of other nodes may be in the same networks.
	Here bool
	In   string // name of the link that it came by
}

// Outcome is what may happen to a packet.
type Outcome struct {
	// Known is false when nothing claims the packet: it passes unchanged.
	Known  bool
	Action Action
	// To are the destinations of Forward, each as likely as any other.
	To []Destination
	// Affinity: a source that was sent to one of To for the same Group within
	// this time goes there again, with certainty. 0: no memory.
	Affinity time.Duration
	Group    Key
}

// Destination is a possible destination of a new connection.
type Destination struct {
	Endpoint    Endpoint
	Probability float64
	// Masquerade: the source address is replaced by one of the node's.
	Masquerade bool
}

// Resolve says what happens to a packet. It is total: any packet and any plan
// have an outcome, and the same one each time. It asks a plan's Index again for
// every packet; Resolver is for many.
func Resolve(p *Plan, pkt Packet) Outcome { return NewResolver(p).Resolve(pkt) }

// Resolver answers for one plan. It is safe for concurrent use.
type Resolver struct {
	node  Node
	index map[Key]*Frontend
}

// NewResolver indexes a plan.
func NewResolver(p *Plan) *Resolver { return &Resolver{node: p.Node, index: Index(p)} }

// Resolve says what happens to a packet, in this order:
//
//  1. An address and port that a frontend claims is that frontend's, a node port
//     at one of the node's addresses comes second ("Virtual IPs and Service
//     Proxies"; an external address may be one of the node's).
//  2. Any other port of a ClusterIP is refused; an address that ClusterIPs are
//     allocated from and that no Service has is dropped (KEP-3866, KEP-1880).
//     All else is none of a proxy's business.
//  3. A source outside of a load balancer's source ranges is dropped, wherever
//     it is (Service API, loadBalancerSourceRanges).
//  4. Where the frontend has an inside, connections of the node and of its own
//     pods take that route (KEP-2450 and kubernetes issue 123714).
//  5. A route forwards to one of its endpoints, drops or refuses (KEP-1669,
//     KEP-2086, KEP-2433 and KEP-3015 are in the choice of endpoints: Build).
//  6. A source is replaced if the route says so, and always when an endpoint
//     would be its own client; never on the way to the node itself.
//  7. What is translated at its socket (Options.Sockets) takes the inside in 4,
//     and keeps its source in 6; at a restricted frontend nothing is.
func (r *Resolver) Resolve(pkt Packet) Outcome {
	f, ok := r.Find(pkt)
	if !ok {
		if contains(r.node.ServiceCIDRs, pkt.Dst) {
			return Outcome{Known: true, Action: Drop}
		}
		return Outcome{}
	}
	if !f.Admits(pkt.Src) {
		return Outcome{Known: true, Action: Drop}
	}
	route, socket := f.Outside, r.atSocket(f, pkt)
	inside := f.Inside != nil && (pkt.FromNode || socket || r.node.ownPods(pkt))
	if inside {
		route = *f.Inside
	}
	out := Outcome{Known: true, Action: route.Action}
	if route.Action == Forward {
		out.Affinity, out.Group = f.Affinity, f.Group
	}
	masq := r.masquerades(route.Masquerade, pkt)
	for _, e := range route.Endpoints {
		hairpin := e.MayBeClient(inside) && e.Addr == pkt.Src
		keeps := socket || e.Host && !pkt.FromNode
		out.To = append(out.To, Destination{Endpoint: e, Probability: 1 / float64(len(route.Endpoints)), Masquerade: (masq || hairpin) && !keeps})
	}
	return out
}

// atSocket tells whether a packet's destination is chosen before there is a packet.
func (r *Resolver) atSocket(f *Frontend, pkt Packet) bool {
	return r.node.Sockets && (pkt.FromNode || pkt.Here) && !f.Restricted
}

// Admits tells whether a source may use the frontend (step 3 of Resolve).
func (f Frontend) Admits(src netip.Addr) bool { return !f.Restricted || contains(f.Sources, src) }

// Find is the frontend that a packet is for (step 1 of Resolve), or the rest of a
// ClusterIP; ok is false if it is for none.
func (r *Resolver) Find(pkt Packet) (*Frontend, bool) {
	key := Key{IPv6: pkt.Dst.Is6(), Addr: pkt.Dst, Protocol: pkt.Protocol, Port: pkt.Port}
	if f, ok := r.index[key]; ok {
		return f, true
	}
	for _, a := range r.node.Addrs {
		if a == pkt.Dst {
			nodePort := key
			nodePort.Addr = netip.Addr{}
			if f, ok := r.index[nodePort]; ok {
				return f, true
			}
		}
	}
	f, ok := r.index[Key{IPv6: key.IPv6, Addr: key.Addr}]
	return f, ok
}

// ownPods tells whether a packet is of a pod that counts as the node's own.
func (n Node) ownPods(pkt Packet) bool {
	return contains(n.LocalPods, pkt.Src) || n.LocalLink.Is(pkt.In)
}

func (r *Resolver) masquerades(m Masquerade, pkt Packet) bool {
	switch m {
	case MasqOffCluster:
		return !r.node.ownPods(pkt)
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
