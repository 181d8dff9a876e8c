package plan

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// patch is the plan of a Service of which a few endpoints of other nodes came, went, or are ready or not: its last one
// with these in their places, at the cost of these, and of copies of lists. ok is false where anything else may come of
// the change: then BuildService has to tell. What it made, this would have, but for the order of slots (Settle).
func patch(was Service, snap *objects.Snapshot, name objects.Name, opt Options, changed map[objects.Name]objects.EndpointSlice) (now Service, ok bool) {
	svc, known := snap.Services[name]
	if !known || len(was.Frontends) == 0 || len(changed) == 0 || len(was.Warnings) > 0 {
		return Service{}, false
	}
	p := patcher{snap: snap, svc: svc, node: opt.Node, at: map[netip.Addr]bool{}, by: map[which]*moves{}, made: map[madeOf][]Endpoint{}}
	for slice, before := range changed {
		all := snap.Slices[name]
		after := objects.EndpointSlice{}
		if i, there := slices.BinarySearchFunc(all, slice, func(s objects.EndpointSlice, n objects.Name) int { return s.Name.Compare(n) }); there {
			after = all[i]
		}
		if !p.slice(before, after) {
			return Service{}, false
		}
	}
	for at, m := range p.by {
		if !p.witness(at) {
			return Service{}, false
		}
		m.sort()
	}
	now = was
	now.Frontends = slices.Clone(was.Frontends)
	for i := range now.Frontends {
		if f := &now.Frontends[i]; !p.frontend(f) {
			return Service{}, false
		}
	}
	return now, true
}

// patchMost are the most endpoints that are patched: each may cost a walk over all of the Service's (isIn).
const patchMost = 64

type patcher struct {
	snap *objects.Snapshot
	svc  objects.Service
	node string
	at   map[netip.Addr]bool // where something changed
	by   map[which]*moves
	made map[madeOf][]Endpoint // lists that are shared go on being shared
}

// moves are the endpoints of a port that are in one state no more, or now, by state.
type moves [states]struct{ gone, came []Endpoint }

// state is what decides about an endpoint of another node.
type state uint8

const (
	ready state = iota
	draining
	unready
	states
)

func stateOf(e *objects.Endpoint) state {
	switch {
	case e.Ready:
		return ready
	case e.Serving:
		return draining
	}
	return unready
}

func (m *moves) sort() {
	for i := range m {
		slices.SortFunc(m[i].gone, Endpoint.Compare)
		slices.SortFunc(m[i].came, Endpoint.Compare)
	}
}

// slice notes what changed in one; ok is false if that is not simple.
func (p *patcher) slice(before, after objects.EndpointSlice) (ok bool) {
	if len(before.Endpoints) > 0 && len(after.Endpoints) > 0 && !slices.Equal(before.Ports, after.Ports) {
		return false
	}
	ports := after.Ports
	if len(after.Endpoints) == 0 {
		ports = before.Ports
	}
	if before.Headless || after.Headless {
		return false
	}
	had := make(map[netip.Addr]*objects.Endpoint, len(before.Endpoints))
	for i := range before.Endpoints {
		had[before.Endpoints[i].Addr] = &before.Endpoints[i]
	}
	if len(had) != len(before.Endpoints) {
		return false // one is there twice
	}
	for i := range after.Endpoints {
		e := &after.Endpoints[i]
		if old := had[e.Addr]; !p.move(ports, old, e) {
			return false
		}
		delete(had, e.Addr)
	}
	for _, e := range had {
		if !p.move(ports, e, nil) {
			return false
		}
	}
	return true
}

// move notes what became of an endpoint; nil: it was, or is, not there.
func (p *patcher) move(ports []objects.SlicePort, old, now *objects.Endpoint) (ok bool) {
	if old != nil && now != nil && sameEndpoint(*old, *now) {
		return true
	}
	some, there := now, 1
	if now == nil {
		some, there = old, 0
	}
	if len(p.at) == patchMost || !p.isIn(there, some.Addr) || !p.plain(old) || !p.plain(now) {
		return false
	}
	p.at[some.Addr] = true
	same := old != nil && now != nil && stateOf(old) == stateOf(now) // of another node, or hinted for one
	if same && unplaced(old) != unplaced(now) {
		return false // it stays in its slot, and is not the same there
	}
	for i, port := range ports {
		if slices.ContainsFunc(ports[:i], func(o objects.SlicePort) bool { return o.Name == port.Name && o.Protocol == port.Protocol }) {
			return false
		}
		at := which{port.Name, port.Protocol, some.Addr.Is6()}
		if p.by[at] == nil {
			p.by[at] = &moves{}
		}
		if same {
			continue
		}
		if old != nil {
			s := &p.by[at][stateOf(old)]
			s.gone = append(s.gone, Endpoint{Addr: some.Addr, Port: port.Port, Unplaced: unplaced(old)})
		}
		if now != nil {
			s := &p.by[at][stateOf(now)]
			s.came = append(s.came, Endpoint{Addr: some.Addr, Port: port.Port, Unplaced: unplaced(now)})
		}
	}
	return true
}

// isIn tells whether so many of the Service's slices have an address.
func (p *patcher) isIn(n int, a netip.Addr) bool {
	if p.snap.EndpointsAt(a) == n { // and of all others
		return true
	}
	for _, sl := range p.snap.Slices[p.svc.Name] {
		for i := range sl.Endpoints {
			if sl.Endpoints[i].Addr == a {
				n--
			}
		}
	}
	return n == 0
}

func sameEndpoint(a, b objects.Endpoint) bool {
	one, other := hintsOf(&a), hintsOf(&b)
	a.Hints, b.Hints = nil, nil
	return a == b && slices.Equal(one.Zones, other.Zones) && slices.Equal(one.Nodes, other.Nodes)
}

// plain tells whether an endpoint is another node's, and no Service's address.
func (p *patcher) plain(e *objects.Endpoint) bool {
	return e == nil || e.Node != p.node && !p.snap.IsClusterIP(e.Addr) && !p.snap.IsExternalIP(e.Addr) && !p.snap.IsNodeIP(e.Addr)
}

// witness finds an endpoint of a port that is ready, as before, and has no hint: so hints decide nothing, and those that
// terminate are not used.
func (p *patcher) witness(at which) bool {
	for _, sl := range p.snap.Slices[p.svc.Name] {
		has := func(port objects.SlicePort) bool { return port.Name == at.name && port.Protocol == at.protocol }
		if sl.Headless || !slices.ContainsFunc(sl.Ports, has) {
			continue
		}
		for _, e := range sl.Endpoints {
			if e.Addr.Is6() == at.v6 && e.Ready && e.Hints == nil && !p.at[e.Addr] && p.isIn(1, e.Addr) && !p.snap.IsClusterIP(e.Addr) {
				return true
			}
		}
	}
	return false
}

// frontend puts what changed into its lists; ok is false if they are not what the slices were.
func (p *patcher) frontend(f *Frontend) (ok bool) {
	if f.Key.IsWildcard() {
		return true
	}
	i := slices.IndexFunc(p.svc.Ports, func(port objects.ServicePort) bool {
		return port.Port == f.Group.Port && port.Protocol == f.Group.Protocol
	})
	if i < 0 {
		return false
	}
	m := p.by[which{p.svc.Ports[i].Name, f.Group.Protocol, f.Key.IPv6}]
	if m == nil {
		return true
	}
	used := &f.Outside.Endpoints
	switch {
	case f.Kind == ClusterIP && p.svc.Internal == objects.Local:
		// Nobody uses those of other nodes: ready ones are beside those that drain.
		all := moves{draining: m[draining], unready: m[unready]}
		all[draining].gone = append(slices.Clone(all[draining].gone), m[ready].gone...)
		all[draining].came = append(slices.Clone(all[draining].came), m[ready].came...)
		all.sort()
		m, used = &all, nil
	case f.Inside != nil:
		in := *f.Inside
		f.Inside, used = &in, &in.Endpoints
	}
	ok = p.list(used, m, ready, inSlots) && p.list(&f.Draining, m, draining, inOrder) && p.list(&f.Unready, m, unready, inOrder)
	return ok
}

// madeOf is a list that changed, zero for none, and what of.
type madeOf struct {
	list list
	by   *moves
	of   state
}

func (p *patcher) list(eps *[]Endpoint, m *moves, of state, change func(old, gone, came []Endpoint) ([]Endpoint, bool)) (ok bool) {
	if len(m[of].gone)+len(m[of].came) == 0 {
		return true
	}
	key := madeOf{by: m, of: of}
	if len(*eps) > 0 {
		key.list = listOf(*eps)
	}
	if out, done := p.made[key]; done {
		*eps = out
		return true
	}
	out, ok := change(*eps, m[of].gone, m[of].came)
	p.made[key], *eps = out, out
	return ok
}

// inSlots has what comes in the slots of what goes, or behind all; where fewer come than go, the last fill the holes.
func inSlots(old, gone, came []Endpoint) ([]Endpoint, bool) {
	out := append(make([]Endpoint, 0, len(old)+len(came)), old...)
	var holes []int
	for i := 0; i < len(out) && len(holes) < len(gone); i++ {
		if _, went := slices.BinarySearchFunc(gone, out[i], Endpoint.Compare); went {
			holes = append(holes, i)
		}
	}
	if len(holes) < len(gone) {
		return nil, false
	}
	for len(holes) > 0 && len(came) > 0 {
		out[holes[0]] = came[0]
		holes, came = holes[1:], came[1:]
	}
	out = append(out, came...)
	for n := len(holes); n > 0; n-- {
		last := len(out) - 1
		if holes[len(holes)-1] == last {
			holes = holes[:len(holes)-1]
		} else {
			out[holes[0]] = out[last]
			holes = holes[1:]
		}
		out = out[:last]
	}
	return out, true
}

// inOrder keeps a list sorted.
func inOrder(old, gone, came []Endpoint) ([]Endpoint, bool) {
	out := append(make([]Endpoint, 0, len(old)+len(came)), old...)
	for _, e := range gone {
		i, there := slices.BinarySearchFunc(out, e, Endpoint.Compare)
		if !there {
			return nil, false
		}
		out = slices.Delete(out, i, i+1)
	}
	for _, e := range came {
		i, _ := slices.BinarySearchFunc(out, e, Endpoint.Compare)
		out = slices.Insert(out, i, e)
	}
	return out, true
}
