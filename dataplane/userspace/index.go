package userspace

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// index holds the frontends of the plan that is in force. A change costs what has
// changed. Safe for concurrent use.
type index struct {
	mu     sync.RWMutex
	node   plan.Node                  // guarded by mu
	fronts map[plan.Key]plan.Frontend // guarded by mu
}

func newIndex() *index { return &index{fronts: map[plan.Key]plan.Frontend{}} }

// update is one change, seen as a whole by Resolve.
func (x *index) update(node *plan.Node, set []plan.Frontend, gone []plan.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if node != nil {
		x.node = *node
	}
	for _, k := range gone {
		delete(x.fronts, k)
	}
	for _, f := range set {
		x.fronts[f.Key] = f
	}
}

func (x *index) get(k plan.Key) (plan.Frontend, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f, ok := x.fronts[k]
	return f, ok
}

func (x *index) getNode() plan.Node {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.node
}

func (x *index) keys() []plan.Key {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.fronts))
}

// Resolve is plan.Resolve for the plan in force. Only frontends with a key that
// the packet shows matter to a packet, so it asks a plan of just these.
func (x *index) Resolve(pkt plan.Packet) plan.Outcome {
	node, fronts := x.claimants(pkt)
	return plan.Resolve(&plan.Plan{Node: node, Services: map[objects.Name]plan.Service{{}: {Frontends: fronts}}}, pkt)
}

// claimants are the frontends that may be a packet's: by its address and port, by
// its port, and by its address.
func (x *index) claimants(pkt plan.Packet) (plan.Node, []plan.Frontend) {
	exact := plan.Key{IPv6: pkt.Dst.Is6(), Addr: pkt.Dst, Protocol: pkt.Protocol, Port: pkt.Port}
	nodePort, wildcard := exact, exact
	nodePort.Addr = netip.Addr{}
	wildcard.Protocol, wildcard.Port = 0, 0
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []plan.Frontend
	for _, k := range []plan.Key{exact, nodePort, wildcard} {
		if f, ok := x.fronts[k]; ok {
			out = append(out, f)
		}
	}
	return x.node, out
}

// keeps tells whether a UDP flow may stay with an endpoint that it has: whether
// that serves the frontend still, be it without new connections.
func (x *index) keeps(pkt plan.Packet, e plan.Endpoint) bool {
	_, fronts := x.claimants(pkt)
	same := func(o plan.Endpoint) bool { return o.Addr == e.Addr && o.Port == e.Port }
	return slices.ContainsFunc(fronts, func(f plan.Frontend) bool {
		return slices.ContainsFunc(f.Outside.Endpoints, same) || slices.ContainsFunc(f.Draining, same) ||
			f.Inside != nil && slices.ContainsFunc(f.Inside.Endpoints, same)
	})
}
