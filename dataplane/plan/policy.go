package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Which endpoints a traffic policy may use: KEP-1669, KEP-2433, KEP-3015, and what upstream calls
// CategorizeEndpoints.

// candidate is an endpoint with the conditions that decide about it.
type candidate struct {
	Endpoint
	state *objects.Endpoint
}

// which are the endpoints of one port in one family.
type which struct {
	name     string
	protocol objects.Protocol
	v6       bool
}

// endpoints gathers a port's endpoints of one family from all slices, in order. One that
// appears twice (it moves between slices, or a new pod got the address of one
// that is still terminating) counts once, in its better state.
func (b *builder) endpoints(port objects.ServicePort, v6 bool) []candidate {
	at := which{port.Name, port.Protocol, v6}
	if known, ok := b.found[at]; ok {
		return known
	}
	n := 0
	for _, sl := range b.slices {
		n += len(sl.Endpoints)
	}
	out := make([]candidate, 0, n)
	for _, sl := range b.slices {
		if sl.Headless {
			continue
		}
		for _, p := range sl.Ports {
			if p.Name == port.Name && p.Protocol == port.Protocol {
				out = b.gather(out, sl.Endpoints, p.Port, v6)
			}
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		switch c := a.Compare(b.Endpoint); {
		case c != 0:
			return c
		case a.better(b):
			return -1
		case b.better(a):
			return 1
		}
		return 0
	})
	out = slices.CompactFunc(out, func(a, b candidate) bool { return a.SamePlace(b.Endpoint) })
	b.found[at] = out
	return out
}

func (b *builder) gather(out []candidate, eps []objects.Endpoint, port uint16, v6 bool) []candidate {
	for i := range eps {
		e := &eps[i]
		if e.Addr.Is6() != v6 {
			continue
		}
		if b.snap.IsClusterIP(e.Addr) {
			b.warnings[fmt.Sprintf("endpoint %s is the ClusterIP of a Service: left out", e.Addr)] = true
			continue
		}
		if b.snap.IsExternalIP(e.Addr) {
			b.warnings[fmt.Sprintf("endpoint %s is an external address of a Service: sent there as it is", e.Addr)] = true
		}
		out = append(out, candidate{
			Endpoint: Endpoint{Addr: e.Addr, Port: port, Local: b.isLocal(e), Unplaced: unplaced(e), Host: b.snap.IsNodeIP(e.Addr)},
			state:    e,
		})
	}
	return out
}

func unplaced(e *objects.Endpoint) bool { return e.Node == "" }

func (b *builder) isLocal(e *objects.Endpoint) bool { return !unplaced(e) && e.Node == b.node }

// better orders duplicates: not terminating (a new pod has the address of one
// that ends: kube-proxy's endpointslicecache decides so), then ready, then
// serving. The node's name and the hints make the choice independent of the
// slices' order.
func (c candidate) better(o candidate) bool {
	if a, b := c.rank(), o.rank(); a != b {
		return a > b
	}
	a, b := hintsOf(c.state), hintsOf(o.state)
	return cmp.Or(cmp.Compare(c.state.Node, o.state.Node), slices.Compare(a.Zones, b.Zones), slices.Compare(a.Nodes, b.Nodes)) < 0
}

func hintsOf(e *objects.Endpoint) objects.Hints {
	if e.Hints == nil {
		return objects.Hints{}
	}
	return *e.Hints
}

func (c candidate) rank() int {
	r := 0
	if !c.state.Terminating {
		r += 4
	}
	if c.state.Ready {
		r += 2
	}
	if c.state.Serving {
		r++
	}
	return r
}

// usable leads to the ready endpoints or, with Fallback and without a ready one, to
// the serving and terminating ones (KEP-1669), of which there may be none either.
// Terminating without serving is never used. A Service that publishes unready
// addresses has them ready in its slices.
func (b *builder) usable(eps []candidate) Route {
	var ready, terminating []Endpoint
	for i, c := range eps {
		switch {
		case c.state.Ready:
			if ready == nil {
				ready = make([]Endpoint, 0, len(eps)-i)
			}
			ready = append(ready, c.Endpoint)
		case c.state.Serving && c.state.Terminating:
			terminating = append(terminating, c.Endpoint)
		}
	}
	if len(ready) > 0 || b.opt.Terminating == Ignore {
		return Route{Action: Forward, Endpoints: ready}
	}
	return Route{Action: Forward, Endpoints: terminating, Terminating: true}
}

// hinted are the endpoints meant for this node's clients, policy Cluster only. The
// ready ones decide: if all have a hint for nodes and one names this node, or
// else all have one for zones and one names this zone, the others are left out.
// A hint that is missing anywhere, or a node without a zone, means all of them
// (KEP-2433, KEP-3015; without a ready endpoint there is nothing to choose from).
func (b *builder) hinted(eps []candidate) []candidate {
	byNode := func(h objects.Hints) []string { return h.Nodes }
	byZone := func(h objects.Hints) []string { return h.Zones }
	if out := meantFor(eps, b.node, byNode); out != nil {
		return out
	}
	if out := meantFor(eps, b.zone, byZone); out != nil {
		return out
	}
	return eps
}

// meantFor is nil if the hints of a kind do not decide.
func meantFor(eps []candidate, place string, hints func(objects.Hints) []string) []candidate {
	var out []candidate
	for _, c := range eps {
		if !c.state.Ready {
			continue
		}
		meant := hints(hintsOf(c.state))
		if len(meant) == 0 {
			return nil
		}
		if slices.Contains(meant, place) {
			out = append(out, c)
		}
	}
	return out
}

// unused are the endpoints that no route of a frontend uses: those that serve all the
// same, and those that do not.
func unused(eps []candidate, f Frontend) (draining, unready []Endpoint) {
	outside, inside := f.Outside.Endpoints, []Endpoint(nil)
	if f.Inside != nil {
		inside = f.Inside.Endpoints
	}
	// Both are in the order of eps, from which they are.
	next := func(from *[]Endpoint, e Endpoint) bool {
		if len(*from) == 0 || !(*from)[0].SamePlace(e) {
			return false
		}
		*from = (*from)[1:]
		return true
	}
	for _, c := range eps {
		out, in := next(&outside, c.Endpoint), next(&inside, c.Endpoint)
		switch {
		case out || in:
		case c.state.Serving || c.state.Ready:
			draining = append(draining, c.Endpoint)
		default:
			unready = append(unready, c.Endpoint)
		}
	}
	return draining, unready
}

func onlyLocal(eps []candidate) []candidate {
	var out []candidate
	for _, c := range eps {
		if c.Local {
			out = append(out, c)
		}
	}
	return out
}
