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

// Resolve is plan.Resolve for the plan in force.
func (x *index) Resolve(pkt plan.Packet) plan.Outcome { return x.claimants(pkt).Resolve(pkt) }

// claimants is the plan in force for one packet: only frontends with a key that
// it shows matter to it, by its address and port, by its port, and by its address.
func (x *index) claimants(pkt plan.Packet) *plan.Resolver {
	exact := plan.Key{IPv6: pkt.Dst.Is6(), Addr: pkt.Dst, Protocol: pkt.Protocol, Port: pkt.Port}
	nodePort, wildcard := exact, exact
	nodePort.Addr = netip.Addr{}
	wildcard.Protocol, wildcard.Port = 0, 0
	x.mu.RLock()
	defer x.mu.RUnlock()
	var fronts []plan.Frontend
	for _, k := range []plan.Key{exact, nodePort, wildcard} {
		if f, ok := x.fronts[k]; ok {
			fronts = append(fronts, f)
		}
	}
	return plan.NewResolver(&plan.Plan{Node: x.node, Services: map[objects.Name]plan.Service{{}: {Frontends: fronts}}})
}

// keeps tells whether a UDP flow may stay with an endpoint that it has: whether
// the frontend that its packets are for now lets the client in, and the endpoint
// serves that still, be it without new connections.
func (x *index) keeps(pkt plan.Packet, e plan.Endpoint) bool {
	f, ok := x.claimants(pkt).Find(pkt)
	if !ok || !f.Admits(pkt.Src) {
		return false
	}
	same := func(o plan.Endpoint) bool { return o.Addr == e.Addr && o.Port == e.Port }
	return slices.ContainsFunc(f.Outside.Endpoints, same) || slices.ContainsFunc(f.Draining, same) ||
		f.Inside != nil && slices.ContainsFunc(f.Inside.Endpoints, same)
}
